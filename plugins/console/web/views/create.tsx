import { useEffect, useRef, useState } from 'preact/hooks'
import { apiVersionOf, type Kind, pathOfKind } from '../api/discovery.ts'
import { request } from '../api/http.ts'
import { fieldsOf, textOf } from '../api/json.ts'
import type { KindSchema } from '../api/schema.ts'
import { tell } from '../app-state.ts'
import { go } from '../route.ts'
import { Dialog } from './dialog.tsx'
import { ObjectEditor, type Way } from './object-editor.tsx'
import { Problem } from './problem.tsx'
import type { EditorHandle } from './yaml-editor.tsx'

/** How the person creates objects, until the page is loaded again. */
let lastWay: Way = 'yaml'

/** Asks for a new object, beginning with what its schema requires and presets. */
export function CreateDialog({
  kind,
  namespace,
  schema,
  close,
}: {
  kind: Kind
  namespace: string | undefined
  schema: KindSchema
  close: () => void
}) {
  const editor = useRef<EditorHandle | undefined>(undefined)
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const [way, setWay] = useState(lastWay)
  const [initial, setInitial] = useState<string>()
  useEffect(() => {
    void import('../model/template.ts').then(({ templateOf }) =>
      setInitial(
        templateOf(schema, {
          apiVersion: apiVersionOf(kind),
          kind: kind.kind,
          namespace: kind.isNamespaced ? (namespace ?? 'default') : undefined,
        }),
      ),
    )
  }, [])
  const create = async () => {
    setBusy(true)
    setError(undefined)
    try {
      const { fromYaml } = await import('../model/yaml.ts')
      const object = fromYaml(editor.current?.text() ?? '')
      const within = kind.isNamespaced
        ? textOf(fieldsOf(object.metadata).namespace) || namespace || 'default'
        : undefined
      const { body, warnings } = await request(pathOfKind(kind, within), { method: 'POST', body: object })
      const { name, namespace: created } = fieldsOf(fieldsOf(body).metadata)
      tell([`Created ${kind.singular} ${name}.`, ...warnings].join(' '))
      close()
      go(pathOfKind(kind, textOf(created) || undefined, textOf(name)))
    } catch (thrown) {
      setError(thrown)
      editor.current?.mark(thrown)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog title={`Create ${kind.kind}`} close={close} isWide>
      {error !== undefined && <Problem error={error} />}
      {initial === undefined ? (
        <p class="quiet">Loading the editor…</p>
      ) : (
        <ObjectEditor
          way={way}
          setWay={next => {
            lastWay = next
            setWay(next)
          }}
          isNew
          initial={initial}
          schema={schema}
          handle={editor}
          focuses
          submit={() => void create()}
        />
      )}
      <div class="actions">
        <button type="button" class="main" disabled={isBusy || initial === undefined} onClick={create}>
          Create
        </button>
        <button type="button" onClick={close}>
          Cancel
        </button>
      </div>
    </Dialog>
  )
}
