import type { MergeType } from '../registry/index.ts'
import type { KindName, PatchKeywords } from './types/built-in-types.ts'

export type { KindName, PatchKeywords } from './types/built-in-types.ts'

/** The groups of the built-in kinds. Others of `k8s.io`, such as `gateway.networking.k8s.io`, come with definitions. */
const builtInGroups: ReadonlySet<string> = new Set(
  [
    '',
    ...[
      'admissionregistration',
      'apiextensions',
      'authentication',
      'authorization',
      'coordination',
      'events',
    ],
    'rbac.authorization',
  ].map(name => (name === '' ? name : `${name}.k8s.io`)),
)

/** Returns true for the groups of the built-in kinds, which take protobuf and strategic merge patches. */
export function isKubernetesGroup(group: string): boolean {
  return builtInGroups.has(group)
}

/**
 * Decodes a protobuf body. Loads the decoder when it is first needed.
 * @param expected names the kind of a body without one
 * @throws ApiError 400 for a malformed body and for an unknown kind; 413 for too many fields
 */
export async function decodeProtobuf(body: Buffer, expected: KindName): Promise<object> {
  const decoder = await import('./protobuf/protobuf-body.ts')
  return decoder.decodeProtobuf(body, expected)
}

/** Loads the encoder of protobuf responses when it is first needed. */
export function loadProtobufResponses(): Promise<typeof import('./protobuf/protobuf-response.ts')> {
  return import('./protobuf/protobuf-response.ts')
}

/** Returns how strategic merges treat the fields of a built-in kind, or undefined for any other kind. */
export async function loadMergeType(kind: KindName): Promise<MergeType | undefined> {
  const types = await import('./types/built-in-types.ts')
  return types.mergeTypeOf(kind)
}

/** Returns the lists of a built-in kind that strategic merges treat in their own way; none for any other kind. */
export async function loadPatchKeywords(kind: KindName): Promise<readonly PatchKeywords[]> {
  const types = await import('./types/built-in-types.ts')
  return types.patchKeywordsOf(kind)
}
