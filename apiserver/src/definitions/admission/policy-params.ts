import { objectKey } from '@setpoint/controller-runtime/api'
import { type Fields, readSelector, recordOf, textOf } from '../../kubernetes/index.ts'
import type { ServedModel, ServedVersion } from '../../model/index.ts'
import { selects } from '../../security/index.ts'

/** Finds the objects that parameterize policies, in this server's caches. */
export interface ParamSource {
  /** Returns a kind that is served, or undefined. */
  kind(apiVersion: string, kind: string): ServedModel | undefined
  /** Returns an object by its key, or undefined. */
  get(served: ServedModel, version: ServedVersion, key: string): Fields | undefined
  /** Returns the objects of a namespace, or all of them. Undefined if the cache is not complete. */
  list(
    served: ServedModel,
    version: ServedVersion,
    namespace: string | undefined,
    matches: (labels: Readonly<Record<string, string>>) => boolean,
  ): readonly Fields[] | undefined
}

/** A binding or its policy cannot be evaluated. */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError'
}

/** The kind of the parameters of a policy. */
export interface ParamKind {
  readonly served: ServedModel
  readonly version: ServedVersion
}

/** Returns the kind that a policy names, undefined if it names none, or why the kind cannot be used. */
export function paramKindOf(
  paramKind: Fields | undefined,
  source: ParamSource,
): ParamKind | string | undefined {
  if (paramKind === undefined) return undefined
  const [apiVersion, kind] = [textOf(paramKind.apiVersion), textOf(paramKind.kind)]
  const served = source.kind(apiVersion, kind)
  if (served !== undefined) return { served, version: served.versionOf(apiVersion) }
  return `failed to find resource referenced by paramKind: '${apiVersion}, Kind=${kind}'`
}

/**
 * Returns the parameters of a binding: one evaluation follows for each. `undefined` among them stands for none.
 * @param namespace of the object of the write; empty for a cluster-scoped one
 * @throws ConfigurationError
 */
export function paramsOf(
  paramKind: ParamKind | undefined,
  ref: Fields | undefined,
  namespace: string,
  source: ParamSource,
): readonly (Fields | undefined)[] {
  if (paramKind === undefined || ref === undefined) return [undefined]
  const found = find(paramKind, ref, namespace, source)
  if (found.length === 0 && ref.parameterNotFoundAction === 'Deny')
    throw new ConfigurationError('no params found for policy binding with `Deny` parameterNotFoundAction')
  return found
}

function find(
  { served, version }: ParamKind,
  ref: Fields,
  namespaceOfWrite: string,
  source: ParamSource,
): readonly Fields[] {
  const given = textOf(ref.namespace)
  const { isNamespaced } = served.indexes
  if (given !== '' && !isNamespaced)
    throw new ConfigurationError('paramRef.namespace must not be provided for a cluster-scoped `paramKind`')
  const namespace = given || namespaceOfWrite
  if (isNamespaced && namespace === '')
    throw new ConfigurationError(
      'cannot use namespaced paramRef in policy binding that matches cluster-scoped resources',
    )
  const name = textOf(ref.name)
  if (name !== '') {
    const param = source.get(served, version, isNamespaced ? objectKey({ namespace, name }) : name)
    return param === undefined ? [] : [param]
  }
  const selector = readSelector(recordOf(ref.selector))
  const params = source.list(served, version, isNamespaced ? namespace : undefined, labels =>
    selects(selector, labels),
  )
  if (params !== undefined) return params
  throw new ConfigurationError(`paramKind kind \`${served.model.kind}\` not yet synced to use for admission`)
}
