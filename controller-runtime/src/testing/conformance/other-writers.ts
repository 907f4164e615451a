import { isApiError } from '../../api/errors.ts'
import type { ApiObject } from '../../api/object.ts'
import { objectKey } from '../../api/object-key.ts'
import type { JsonPatchOperation } from '../../client/bodies.ts'
import type { Scenario } from './scenario.ts'

/** A change of the object by another writer. */
export type Edit<T extends ApiObject, Outside> = (scenario: Scenario<T, Outside>) => Promise<void>

/** The domain of keys of other writers. */
export const othersDomain = 'conformance.example.com'

/** The finalizer of another writer. */
export const othersFinalizer = `${othersDomain}/hold`

export function annotate<T extends ApiObject, Outside>(
  scenario: Scenario<T, Outside>,
  name: string,
  /** null removes the annotation. */
  value: string | null,
): Promise<void> {
  return edit(scenario, ({ metadata: { annotations } }) => {
    if (value !== null) return [setEntry('annotations', annotations, name, value)]
    return annotations?.[`${othersDomain}/${name}`] === undefined
      ? []
      : [{ op: 'remove', path: pathOf('annotations', name) }]
  })
}

export function label<T extends ApiObject, Outside>(
  scenario: Scenario<T, Outside>,
  name: string,
  value: string,
): Promise<void> {
  return edit(scenario, ({ metadata }) => [setEntry('labels', metadata.labels, name, value)])
}

/** Adds a finalizer at the end of the list, unless it exists or the object is deleting. */
export function addFinalizer<T extends ApiObject, Outside>(
  scenario: Scenario<T, Outside>,
  finalizer: string,
): Promise<void> {
  return edit(scenario, ({ metadata }) => {
    const { finalizers, deletionTimestamp } = metadata
    if (deletionTimestamp !== undefined || finalizers?.includes(finalizer)) return []
    return finalizers === undefined
      ? [{ op: 'add', path: '/metadata/finalizers', value: [finalizer] }]
      : [{ op: 'add', path: '/metadata/finalizers/-', value: finalizer }]
  })
}

export function removeFinalizer<T extends ApiObject, Outside>(
  scenario: Scenario<T, Outside>,
  finalizer: string,
): Promise<void> {
  return edit(scenario, ({ metadata }) => {
    const index = metadata.finalizers?.indexOf(finalizer) ?? -1
    return index < 0 ? [] : [{ op: 'remove', path: `/metadata/finalizers/${index}` }]
  })
}

/** Patches the object with a precondition on its version, and retries after a conflict. */
async function edit<T extends ApiObject, Outside>(
  { client, subject, timeline, object: { metadata } }: Scenario<T, Outside>,
  operations: (object: T) => readonly JsonPatchOperation[],
): Promise<void> {
  const key = objectKey(metadata)
  timeline.note(`another writer changes ${subject.model.singular} ${key}`, true)
  for (;;) {
    const object = await client.getIfExists(subject.model, key)
    const patch = object === undefined ? [] : operations(object)
    if (object === undefined || patch.length === 0) return
    const { version } = object.metadata
    try {
      await client.patch(subject.model, key, [
        { op: 'test', path: '/metadata/version', value: version },
        ...patch,
      ])
      return
    } catch (error) {
      if (!isApiError(error, 'Conflict', 'Invalid', 'NotFound')) throw error
      const live = await client.getIfExists(subject.model, key)
      // The object has not changed: the error has another reason.
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
