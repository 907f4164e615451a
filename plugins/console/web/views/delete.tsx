import { useState } from 'preact/hooks'
import { consoleHref } from '../api/address.ts'
import type { Kind } from '../api/discovery.ts'
import { request } from '../api/http.ts'
import { type ApiObject, fieldsOf } from '../api/json.ts'
import { tell, type World } from '../app-state.ts'
import { goingWith } from '../model/dependents.ts'
import { Dialog } from './dialog.tsx'
import { Problem } from './problem.tsx'
import { useAsync } from './use-async.ts'

/** Objects that are named; of more, their number is told. */
const named = 20

/** Says what goes with the object, and deletes it. */
export function DeleteDialog({
  object,
  kind,
  path,
  world,
  close,
}: {
  object: ApiObject
  kind: Kind
  path: string
  world: World
  close: () => void
}) {
  const { name, uid, finalizers } = object.metadata
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const looked = useAsync(() => goingWith(object, world), [uid])
  const dependents = looked?.found
  const isNamespace = kind.group === '' && kind.plural === 'namespaces'
  const isDefinition = kind.group === 'apiextensions.k8s.io' && kind.plural === 'customresourcedefinitions'
  const remove = async () => {
    setBusy(true)
    setError(undefined)
    try {
      const { body } = await request(path, { method: 'DELETE', body: { preconditions: { uid } } })
      const waits =
        fieldsOf(fieldsOf(body).metadata).deletionTimestamp !== undefined &&
        (finalizers.length > 0 || isNamespace)
      tell(waits ? `${kind.kind} ${name} is being deleted.` : `Deleted ${kind.singular} ${name}.`)
      close()
    } catch (thrown) {
      setError(thrown)
      setBusy(false)
    }
  }
  return (
    <Dialog title={`Delete ${kind.kind} ${name}?`} close={close}>
      {error !== undefined && <Problem error={error} />}
      {isNamespace && <p>Everything in the namespace is deleted with it.</p>}
      {isDefinition && <p>Every object of the kind is deleted with it.</p>}
      {dependents === undefined && <p class="quiet">Looking for what goes with it…</p>}
      {dependents?.length === 0 && (
        <p>
          {looked?.gap === ''
            ? 'No other object goes with it at present.'
            : 'No other object was found that goes with it.'}
        </p>
      )}
      {dependents !== undefined && dependents.length > 0 && (
        <>
          <p>With it {dependents.length === 1 ? 'goes' : 'go'}:</p>
          <ul>
            {dependents.slice(0, named).map(each => (
              <li key={each.path}>
                <a href={consoleHref(each.path)}>
                  {each.kind.kind} <bdi>{each.name}</bdi>
                </a>
                {each.namespace !== object.metadata.namespace && !isNamespace && ` in ${each.namespace}`}
              </li>
            ))}
            {dependents.length > named && <li>and {dependents.length - named} others</li>}
          </ul>
        </>
      )}
      {looked !== undefined && looked.gap !== '' && <p class="quiet">{looked.gap}</p>}
      {finalizers.length > 0 && (
        <p>
          It stays until {finalizers.length === 1 ? 'this finalizer is' : 'these finalizers are'} taken away:{' '}
          {finalizers.map(each => (
            <code key={each} class="chip">
              {each}
            </code>
          ))}
        </p>
      )}
      <div class="actions">
        <button type="button" class="danger" disabled={isBusy} onClick={remove}>
          Delete
        </button>
        <button type="button" onClick={close}>
          Cancel
        </button>
      </div>
    </Dialog>
  )
}
