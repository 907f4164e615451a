import { type JsonObject, reviewPathOf } from '../model/index.ts'
import { KindOperations, type OperationOptions } from './kind-operations.ts'
import { isNamespaced, type KindComponents, type KindVersion } from './kind-schemas.ts'
import { rootOf } from './names.ts'
import { parameterRefs, type SharedParameter } from './parameters.ts'

/** Returns the paths of a kind in one of its versions, with their operations. */
export function kindPaths(
  of: KindVersion,
  components: KindComponents,
  options: OperationOptions,
): JsonObject {
  const root = rootOf(of.version.apiVersion)
  const { plural } = of.served.model
  const operations = new KindOperations(of, components, options)
  if (of.served.review !== undefined) return reviewPaths(of, operations)
  if (!isNamespaced(of)) return pathsAt(`${root}/${plural}`, of, operations, [])
  return {
    [`${root}/${plural}`]: { get: operations.list('ForAllNamespaces') },
    ...pathsAt(`${root}/namespaces/{namespace}/${plural}`, of, operations, ['namespace']),
  }
}

/** Returns the path of a kind whose objects are answered and not stored. */
function reviewPaths(of: KindVersion, operations: KindOperations): JsonObject {
  const { group, version, plural } = reviewPathOf(of.served)
  const [collection = '', subresource] = plural.split('/')
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`
  const scope: readonly SharedParameter[] = isNamespaced(of) ? ['namespace'] : []
  const below = subresource === undefined ? collection : `${collection}/{name}/${subresource}`
  const path = isNamespaced(of) ? `${root}/namespaces/{namespace}/${below}` : `${root}/${below}`
  const parameters = parameterRefs(...scope, ...(subresource === undefined ? [] : (['name'] as const)))
  return { [path]: { ...(parameters.length > 0 && { parameters }), post: operations.review() } }
}

/** Returns the paths of a collection and its objects. */
function pathsAt(
  collection: string,
  { served, version }: KindVersion,
  operations: KindOperations,
  scope: readonly SharedParameter[],
): JsonObject {
  const named = { parameters: parameterRefs(...scope, 'name') }
  return {
    [collection]: {
      ...(scope.length > 0 && { parameters: parameterRefs(...scope) }),
      get: operations.list(''),
      post: operations.create(),
      // Built-in kinds whose objects partly always exist cannot be deleted as a collection.
      ...(served.rules?.checkDeletion === undefined && { delete: operations.deleteCollection() }),
    },
    [`${collection}/{name}`]: {
      ...named,
      get: operations.read(),
      put: operations.replace(),
      patch: operations.patch(),
      delete: operations.delete(),
    },
    ...(version.hasStatus && {
      [`${collection}/{name}/status`]: {
        ...named,
        get: operations.readStatus(),
        put: operations.replaceStatus(),
        patch: operations.patchStatus(),
      },
    }),
    ...(version.defined?.scale && {
      [`${collection}/{name}/scale`]: {
        ...named,
        get: operations.readScale(),
        put: operations.replaceScale(),
        patch: operations.patchScale(),
      },
    }),
    ...Object.fromEntries(
      (served.rules?.subresources ?? []).map(subresource => [
        `${collection}/{name}/${subresource}`,
        { ...named, put: operations.replaceSubresource(subresource) },
      ]),
    ),
  }
}
