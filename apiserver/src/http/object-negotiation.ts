import { ApiError } from '@setpoint/controller-runtime/api'
import { findObjectView, type ObjectView, protobufType } from '../kubernetes/index.ts'
import { quote } from '../model/index.ts'
import { negotiate } from './accept.ts'
import type { ResourceRequest } from './request-info.ts'

/** The media type of a response about objects, and the form of the objects if it is not their own. */
interface ObjectFormat {
  /** Protobuf only if the client accepts nothing else. */
  readonly type: string
  readonly view: ObjectView | undefined
}

/**
 * Chooses the format of objects by an Accept header.
 * @param offered the media types that can be served, the usual one first
 * @throws ApiError 406; 400 for an unknown `includeObject`
 */
export function negotiateObject(
  accept: string | undefined,
  { served, path, query, verb }: ResourceRequest,
  offered: readonly [string, ...string[]],
): ObjectFormat {
  const [usual] = offered
  // Most requests have one of these.
  if (!accept || accept === '*/*' || accept === usual) return { type: usual, view: undefined }
  const version = served.versionAt(path)
  const ofList = verb === 'list' || verb === 'deletecollection'
  // A review has no metadata worth a table, and kube-apiserver has no TableConvertor for it.
  const hasViews = served.review === undefined
  const found = negotiate(accept, offered.filter(isJson), clause =>
    hasViews ? findObjectView(version, clause, ofList, query) : undefined,
  )
  if (found !== undefined) return { type: found.type, view: found.form }
  if (offered.includes(protobufType) && acceptsProtobuf(accept))
    return { type: protobufType, view: undefined }
  throw notAcceptable(accept, hasViews)
}

export function notAcceptable(accept: string | undefined, hasViews = true): ApiError {
  const also = hasViews ? ', also as a Table or PartialObjectMetadata of meta.k8s.io' : ''
  return new ApiError('NotAcceptable', `only application/json can be produced${also}, not ${quote(accept)}`)
}

const isJson = (type: string) => type !== protobufType

function acceptsProtobuf(accept: string): boolean {
  return negotiate(accept, [protobufType], () => undefined) !== undefined
}

/** Returns true for a client that accepts protobuf and no plain JSON, as some of client-go's. */
export function acceptsOnlyProtobuf(accept: string | undefined): boolean {
  if (!accept?.includes(protobufType)) return false
  return acceptsProtobuf(accept) && negotiate(accept, ['application/json'], () => undefined) === undefined
}
