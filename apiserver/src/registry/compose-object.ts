import type { BareMeta, BareObject, ServedVersion } from '../model/index.ts'

/** Builds an object with its fields in a fixed order. `wireBytes` relies on the first three. */
export function composeObject(
  version: ServedVersion,
  metadata: BareMeta,
  content: Record<string, unknown>,
): BareObject {
  // Of a definition's kind, as Kubernetes does it, an absent spec stays absent.
  const hasSpec = version.content.spec !== undefined && version.defined === undefined
  const { spec = hasSpec ? {} : undefined, status, ...rest } = content
  const { apiVersion: _apiVersion, kind: _kind, metadata: _metadata, ...others } = rest
  const object: BareObject = { apiVersion: version.apiVersion, kind: version.kind, metadata, spec }
  if (spec === undefined) delete object.spec
  if (status !== undefined) object.status = status
  return Object.assign(object, others)
}

const metadataOrder = [
  'name',
  'namespace',
  'generateName',
  'uid',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'finalizers',
  'ownerReferences',
  'labels',
  'annotations',
  'managedFields',
] as const

/** Copies metadata in a fixed order, the name first, without absent fields. */
export function orderMetadata(metadata: { [K in keyof BareMeta]: BareMeta[K] | undefined }): BareMeta {
  const ordered: Record<string, unknown> = {}
  for (const field of metadataOrder) {
    const value = metadata[field]
    if (value !== undefined) ordered[field] = value
  }
  return ordered as unknown as BareMeta
}
