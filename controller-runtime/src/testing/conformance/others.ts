import { isApiError } from '../../api/errors.ts'
import type { ApiObject } from '../../api/object.ts'
import type { JsonPatchOperation } from '../../client/client.ts'
import type { Stage } from './stage.ts'

/** Something that others do to the object. */
export type Edit<T extends ApiObject, Outside> = (stage: Stage<T, Outside>) => Promise<void>

/** The domain of what others write. */
export const othersDomain = 'conformance.example.com'

/** Somebody else's finalizer. */
export const othersFinalizer = `${othersDomain}/hold`

export function annotate<T extends ApiObject, Outside>(
  stage: Stage<T, Outside>,
  name: string,
  /** null takes the annotation away. */
  value: string | null,
): Promise<void> {
  return edit(stage, ({ metadata: { annotations } }) => {
    if (value !== null) return [setEntry('annotations', annotations, name, value)]
    return annotations?.[`${othersDomain}/${name}`] === undefined
      ? []
      : [{ op: 'remove', path: pathOf('annotations', name) }]
  })
}

export function label<T extends ApiObject, Outside>(
  stage: Stage<T, Outside>,
  name: string,
  value: string,
): Promise<void> {
  return edit(stage, ({ metadata }) => [setEntry('labels', metadata.labels, name, value)])
}

/** At the beginning or the end of the list; nothing where it is there, or can no longer be added. */
export function addFinalizer<T extends ApiObject, Outside>(
  stage: Stage<T, Outside>,
  finalizer: string,
  at: 'first' | 'last',
): Promise<void> {
  return edit(stage, ({ metadata }) => {
    const { finalizers, deletionTimestamp } = metadata
    if (deletionTimestamp !== undefined || finalizers?.includes(finalizer)) return []
    return finalizers === undefined
      ? [{ op: 'add', path: '/metadata/finalizers', value: [finalizer] }]
      : [{ op: 'add', path: `/metadata/finalizers/${at === 'first' ? '0' : '-'}`, value: finalizer }]
  })
}

export function removeFinalizer<T extends ApiObject, Outside>(
  stage: Stage<T, Outside>,
  finalizer: string,
): Promise<void> {
  return edit(stage, ({ metadata }) => {
    const index = metadata.finalizers?.indexOf(finalizer) ?? -1
    return index < 0 ? [] : [{ op: 'remove', path: `/metadata/finalizers/${index}` }]
  })
}

/** A careful writer: what it makes of the object holds for that state of it, or is made anew. */
async function edit<T extends ApiObject, Outside>(
  { client, subject, object: { metadata } }: Stage<T, Outside>,
  operations: (object: T) => readonly JsonPatchOperation[],
): Promise<void> {
  for (;;) {
    const object = await client.getIfExists(subject.model, metadata.name)
    const patch = object === undefined ? [] : operations(object)
    if (object === undefined || patch.length === 0) return
    const { version } = object.metadata
    try {
      await client.patch(subject.model, metadata.name, [
        { op: 'test', path: '/metadata/version', value: version },
        ...patch,
      ])
      return
    } catch (error) {
      if (!isApiError(error, 'Conflict', 'Invalid', 'NotFound')) throw error
      const live = await client.getIfExists(subject.model, metadata.name)
      // Refused for another reason than that the object has changed.
      if (live?.metadata.version === version) throw error
    }
  }
}

function setEntry(
  map: 'labels' | 'annotations',
  present: Readonly<Record<string, string>> | undefined,
  name: string,
  value: string,
): JsonPatchOperation {
  const key = `${othersDomain}/${name}`
  if (present === undefined) return { op: 'add', path: `/metadata/${map}`, value: { [key]: value } }
  return { op: 'add', path: pathOf(map, name), value }
}

function pathOf(map: 'labels' | 'annotations', name: string): string {
  return `/metadata/${map}/${othersDomain}~1${name}`
}
