import type { MergeType } from '../../registry/index.ts'
import { goKinds, goStructs } from './go-structs.ts'
import { MergeTypes } from './merge-type.ts'

/** A kind in one of its versions. */
export interface KindName {
  /** `<group>/<version>`, or `v1` of the core group. */
  readonly apiVersion: string
  readonly kind: string
}

const mergeTypes = new MergeTypes(goStructs)

/** Returns the name of the Go struct of a built-in kind, or undefined for any other kind. */
export function structOf({ apiVersion, kind }: KindName): string | undefined {
  const key = `${apiVersion}/${kind}`
  return Object.hasOwn(goKinds, key) ? goKinds[key] : undefined
}

/**
 * Kinds without a struct here. They take strategic merges, but no protobuf. All lists outside their metadata are
 * replaced.
 */
const withoutStruct: ReadonlySet<string> = new Set(['apiextensions.k8s.io/v1/CustomResourceDefinition'])

const onlyMetadata: MergeType = field =>
  field === 'metadata' ? { type: mergeTypes.of('meta.v1.ObjectMeta') } : undefined

/** Returns how strategic merges treat the fields of a built-in kind, or undefined for any other kind. */
export function mergeTypeOf(kind: KindName): MergeType | undefined {
  if (withoutStruct.has(`${kind.apiVersion}/${kind.kind}`)) return onlyMetadata
  const struct = structOf(kind)
  return struct === undefined ? undefined : mergeTypes.of(struct)
}

/** The keywords of a schema that say how strategic merges treat a list, and the path of the list. */
export interface PatchKeywords {
  /** Names of properties. */
  readonly path: readonly string[]
  readonly keywords: {
    readonly 'x-kubernetes-patch-strategy': string
    readonly 'x-kubernetes-patch-merge-key'?: string
  }
}

/** Returns the lists of a built-in kind outside its metadata that strategic merges treat in their own way. */
export function patchKeywordsOf(kind: KindName): readonly PatchKeywords[] {
  const struct = structOf(kind)
  return struct === undefined ? [] : keywordsIn(struct, []).filter(({ path }) => path[0] !== 'metadata')
}

/**
 * The lists of structs in lists have no path. OpenAPI does not need them: kubectl knows the types of the built-in
 * kinds.
 */
function keywordsIn(struct: string, path: readonly string[]): PatchKeywords[] {
  return (goStructs[struct] ?? []).flatMap(({ name, form, type, strategy, mergeKey }) => {
    const at = [...path, name]
    const isObject = form === 'value' || form === 'pointer'
    if (strategy === undefined) return isObject && Object.hasOwn(goStructs, type) ? keywordsIn(type, at) : []
    const keywords = {
      'x-kubernetes-patch-strategy': strategy.join(','),
      'x-kubernetes-patch-merge-key': mergeKey,
    }
    return [{ path: at, keywords }]
  })
}
