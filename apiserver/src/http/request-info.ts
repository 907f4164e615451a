import { ApiError, type StatusDetails } from '@setpoint/controller-runtime/api'
import { retryAfterSeconds } from '@setpoint/controller-runtime/internal'
import { echo, echoName, type ServedModel } from '../model/index.ts'
import { verbOf } from '../security/index.ts'
import { type ParsedPath, parseResourcePath, type ResourcePath } from './api-request.ts'

/**
 * What a request asks for, as in Kubernetes' RequestInfo. It is read once for each request. Authorization, audit and
 * fairness decide by it, and by nothing else of the request.
 */
export type RequestInfo = ResourceRequest | OtherRequest

/** A request for objects of a kind that is served. */
export interface ResourceRequest {
  /** A verb of RBAC, or the method in lower case if that is refused with 405 for all objects. */
  readonly verb: string
  /** The objects, as the rules of RBAC name them. */
  readonly target: ResourcePath
  /** True if the objects have secrets. */
  readonly isSensitive: boolean
  readonly served: ServedModel
  readonly path: ResourcePath
  readonly query: URLSearchParams
}

/** A request for a path of the server, a route of a plugin, or a kind that is not served. */
interface OtherRequest {
  /** A verb of RBAC if the path has the form of a resource and the method has one, else the method in lower case. */
  readonly verb: string
  /** A path in the form of a resource counts as one, as in Kubernetes. */
  readonly target: ResourcePath | string
  readonly isSensitive: boolean
  readonly served: undefined
  /** Where else the request belongs, for people. */
  readonly hint?: string
  /** True if plugins were starting when the request was read. They may have added the path since. */
  readonly isEarly: boolean
}

/** What a server serves. */
export interface Served {
  /** Returns the model that a path names, or undefined if nothing is served there. */
  modelOf(path: ResourcePath): ServedModel | undefined
  /** Returns true while plugins may still add kinds and routes. */
  isStarting(): boolean
}

const noQuery = new URLSearchParams()

/**
 * Reads a request over plain HTTP.
 * @param path below the base path, not decoded
 * @param query not decoded
 * @throws URIError for a segment that cannot be decoded
 */
export function readRequestInfo(
  method: string,
  path: string,
  query: string,
  { modelOf, isStarting }: Served,
): RequestInfo {
  const parsed = parseResourcePath(path)
  if (parsed === undefined) {
    const verb = method === 'HEAD' ? 'get' : method.toLowerCase()
    return { verb, target: path, isSensitive: false, served: undefined, isEarly: isStarting() }
  }
  const verb = verbOf(method, parsed.name === undefined ? 'collection' : 'object') ?? method.toLowerCase()
  const served = parsed.isComplete ? modelOf(parsed) : undefined
  if (served === undefined) {
    const hint = namespaceHint(parsed, modelOf)
    const target = targetOfPath(parsed)
    return { verb, target, isSensitive: false, served, isEarly: isStarting(), ...(hint && { hint }) }
  }
  const parameters = query === '' ? noQuery : new URLSearchParams(query)
  return {
    verb: method === 'GET' && asksForWatch(parameters) ? 'watch' : verb,
    target: targetOf(parsed, verb, parameters),
    isSensitive: served.model.sensitive,
    served,
    path: parsed,
    query: parameters,
  }
}

/** Returns a request for objects that can be watched. @throws ApiError 404, 503 as `nothingServed` */
export function watchable(info: RequestInfo, shownPath: string, path?: string): ResourceRequest {
  if (info.served !== undefined && info.path.subresource === undefined) return info
  throw nothingServed(shownPath, path, info)
}

/**
 * The error for a path that names nothing: 404, or 503 if plugins may add it.
 * @param path below the base path; undefined outside of it
 */
export function nothingServed(shownPath: string, path?: string, info?: RequestInfo): ApiError {
  const shown = echo(shownPath)
  if (path === '/')
    return new ApiError(
      'NotFound',
      `nothing is served at ${shown}; see ${shown}apis, or ${shown}docs in a browser`,
    )
  const isEarly = info?.served === undefined && info?.isEarly
  if (!isEarly || !path?.startsWith('/apis/'))
    return new ApiError('NotFound', `nothing is served at ${shown}${hintOf(info)}`, ownerOf(info))
  const message = `plugins are still starting and may serve ${shown}: retry later`
  return new ApiError('ServiceUnavailable', message, { retryAfterSeconds })
}

function hintOf(info: RequestInfo | undefined): string {
  return info?.served === undefined && info?.hint !== undefined ? `: ${info.hint}` : ''
}

/** Returns where an object is whose path lacks its namespace, or undefined. */
function namespaceHint(path: ParsedPath, modelOf: Served['modelOf']): string | undefined {
  const { plural, name, namespace, subresource, isComplete } = path
  if (!isComplete || name === undefined || namespace !== undefined) return undefined
  const served = modelOf({ ...path, namespace: 'default' })
  const below = subresource === undefined ? '' : `/${subresource}`
  return served && `${plural} are in namespaces, at .../namespaces/<namespace>/${plural}/<name>${below}`
}

/** Returns the object whose subresource a request names, as details of an error. */
function ownerOf(info: RequestInfo | undefined): StatusDetails | undefined {
  if (info === undefined || typeof info.target === 'string') return undefined
  const { group, plural, name = '', subresource } = info.target
  if (subresource === undefined) return undefined
  return { group: echoName(group), kind: echoName(plural), name: echoName(name) }
}

/** Returns the info of a watch over a WebSocket or in this process, whose query does not say that it is one. */
export function asWatch(info: RequestInfo): RequestInfo {
  return typeof info.target === 'string' ? info : { ...info, verb: 'watch' }
}

/** Returns the info of a request that cannot be read. Its query may have secrets. */
export function unreadable(method: string, path: string): RequestInfo {
  return { verb: method.toLowerCase(), target: path, isSensitive: true, served: undefined, isEarly: false }
}

/**
 * Returns what a path names. As in Kubernetes, a Namespace counts as in itself, so that a RoleBinding in it can grant
 * it.
 */
export function targetOfPath(path: ResourcePath): ResourcePath {
  return path.group === '' && path.plural === 'namespaces' ? { ...path, namespace: path.name } : path
}

/** A list or watch that selects one name is about that name, as in Kubernetes. */
function targetOf(path: ResourcePath, verb: string, query: URLSearchParams): ResourcePath {
  const selects = verb === 'list' && query.size > 0
  const name = selects ? selectedName(query.getAll('fieldSelector')) : undefined
  return name === undefined ? targetOfPath(path) : { ...path, name }
}

const nameTerm = /^metadata\.name==?([A-Za-z0-9][-A-Za-z0-9.:_]*)$/

/** Returns the name that one of the selectors demands, if it is written plainly. */
function selectedName(selectors: readonly string[]): string | undefined {
  for (const selector of selectors) {
    // Brackets and escapes may hide a comma.
    if (/[()\\]/.test(selector)) continue
    for (const term of selector.split(',')) {
      const [, name] = nameTerm.exec(term) ?? []
      if (name !== undefined) return name
    }
  }
  return undefined
}

/** As in Kubernetes, every value but these asks for a watch. A malformed one is refused later. */
function asksForWatch(query: URLSearchParams): boolean {
  const value = query.size === 0 ? null : query.get('watch')
  return value !== null && value !== '0' && value.toLowerCase() !== 'false'
}
