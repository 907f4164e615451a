import { useEffect, useRef, useState } from 'preact/hooks'
import { apiVersionOf, type Kind } from '../api/discovery.ts'
import { ApiFailure, get, request } from '../api/http.ts'
import { type ApiObject, type Fields, fieldsOf, isNewer, objectOf, textsOf } from '../api/json.ts'
import { type KindSchema, schemaAt } from '../api/schema.ts'
import { tell } from '../app-state.ts'
import type { LiveObject } from '../model/live-object.ts'
import { isEqual, type ListType, mergeChanges } from '../model/merge.ts'
import {
  type ConflictMarks,
  conflictsIn,
  decide,
  editable,
  fromYaml,
  mergedYaml,
  toYaml,
} from '../model/yaml.ts'
import { ObjectEditor, type Way } from './object-editor.tsx'
import { Problem } from './problem.tsx'
import type { EditorHandle } from './yaml-editor.tsx'

/** The object as text, or as a form. What others change meanwhile is shown, and merged when the person says so. */
export function YamlTab({
  live,
  kind,
  path,
  schema,
  mayUpdate,
  way,
  setWay,
}: {
  live: LiveObject
  kind: Kind
  path: string
  schema: KindSchema | undefined
  mayUpdate: boolean
  way: Way
  setWay: (way: Way) => void
}) {
  const state = live.state.value
  const newest = 'object' in state ? state.object : undefined
  const known = { apiVersion: apiVersionOf(kind), kind: kind.kind }
  const contentOf = (object: ApiObject) => editable(object, kind.hasStatus)
  /** What the text began from. */
  const base = useRef<ApiObject | undefined>(newest)
  const editor = useRef<EditorHandle | undefined>(undefined)
  /** Whether the person has changed the text. Effects run later than keys, so they ask the reference. */
  const isTyped = useRef(false)
  const [isDirty, setIsDirty] = useState(false)
  const setDirty = (is: boolean) => {
    isTyped.current = is
    setIsDirty(is)
  }
  const [error, setError] = useState<unknown>()
  const [isConflict, setConflict] = useState(false)
  const [marks, setMarks] = useState<readonly ConflictMarks[]>([])
  const [isBusy, setBusy] = useState(false)

  // An untouched text follows the object. What was saved may be newer than what the watch has brought.
  useEffect(() => {
    if (newest === undefined || isTyped.current) return
    const { metadata } = base.current ?? newest
    if (metadata.uid === newest.metadata.uid && isNewer(metadata.version, newest.metadata.version)) return
    base.current = newest
    editor.current?.set(toYaml(contentOf(newest)))
  }, [newest, isDirty])

  const changed = () => {
    setDirty(true)
    setMarks(conflictsIn(editor.current?.text() ?? ''))
  }
  const setText = (text: string) => {
    editor.current?.set(text)
    setMarks(conflictsIn(text))
  }
  const attempt = async (action: (content: Fields) => Promise<void>) => {
    setBusy(true)
    setError(undefined)
    editor.current?.mark(undefined)
    try {
      await action(fromYaml(editor.current?.text() ?? ''))
    } catch (thrown) {
      setError(thrown)
      setConflict(thrown instanceof ApiFailure && thrown.reason === 'Conflict')
      editor.current?.mark(thrown)
    } finally {
      setBusy(false)
    }
  }
  const readNewest = async () => {
    const read = objectOf(await get(path), known)
    return newest !== undefined &&
      newest.metadata.uid === read.metadata.uid &&
      isNewer(newest.metadata.version, read.metadata.version)
      ? newest
      : read
  }
  /** Replaces the object at the state that the text began from, unless others have changed only what the text does not have. */
  const put = async (content: Fields, dryRun: boolean) => {
    const from = base.current
    const query = dryRun ? '?dryRun=All' : ''
    const send = (version: string | undefined) =>
      request(`${path}${query}`, { method: 'PUT', body: withVersion(content, version) })
    try {
      return await send(from?.metadata.version)
    } catch (thrown) {
      if (!(thrown instanceof ApiFailure) || thrown.reason !== 'Conflict' || from === undefined) throw thrown
      const present = await readNewest()
      if (present.metadata.uid !== from.metadata.uid || !isEqual(contentOf(present), contentOf(from)))
        throw thrown
      return send(present.metadata.version)
    }
  }
  const check = () =>
    attempt(async content => {
      const { warnings } = await put(content, true)
      tell(['The object is valid. Nothing has been saved.', ...warnings].join(' '))
    })
  const save = () =>
    attempt(async content => {
      const sent = editor.current?.text()
      const { body, warnings } = await put(content, false)
      const saved = objectOf(body, known)
      base.current = saved
      setConflict(false)
      // What was typed meanwhile stays.
      if (editor.current?.text() === sent) {
        setDirty(false)
        setText(toYaml(contentOf(saved)))
      }
      tell([`Saved ${kind.singular} ${saved.metadata.name}.`, ...warnings].join(' '))
    })
  const merge = () =>
    attempt(async () => {
      const theirs = await readNewest()
      const content = fromYaml(editor.current?.text() ?? '')
      const from = base.current ?? theirs
      const { value, conflicts } = mergeChanges(
        contentOf(from),
        withoutVersion(content),
        contentOf(theirs),
        path =>
          schema === undefined ? 'atomic' : listTypeOf(schemaAt(schema.schema, schema.document, path)),
      )
      base.current = theirs
      setConflict(false)
      setDirty(true)
      setText(mergedYaml(value))
      tell(
        conflicts.length === 0
          ? 'Merged. Nothing has been saved yet.'
          : `Merged, with ${conflicts.length === 1 ? 'one field' : `${conflicts.length} fields`} to decide. Nothing has been saved yet.`,
      )
    })
  const choose = (mark: ConflictMarks, side: 'yours' | 'theirs') => {
    setText(decide(editor.current?.text() ?? '', mark, side))
    setDirty(true)
  }
  const reset = () => {
    setError(undefined)
    setConflict(false)
    setMarks([])
    setDirty(false)
    editor.current?.mark(undefined)
    if (newest !== undefined) editor.current?.set(toYaml(contentOf(newest)))
  }
  if (newest === undefined) return null
  const isBehind =
    isDirty &&
    !isConflict &&
    base.current !== undefined &&
    !isEqual(contentOf(newest), contentOf(base.current))
  return (
    <div class="yaml">
      {error !== undefined && <Problem error={error} />}
      {isBehind && error === undefined && (
        <p class="waiting">
          Somebody else has changed this object since you began. Saving will ask you to merge.
        </p>
      )}
      {marks.length > 0 && (
        <ul class="conflicts">
          {marks.map((mark, at) => (
            <li key={mark.start}>
              Conflict {at + 1}, line {mark.start + 1}
              <button type="button" onClick={() => choose(mark, 'yours')}>
                Take yours
              </button>
              <button type="button" onClick={() => choose(mark, 'theirs')}>
                Take theirs
              </button>
            </li>
          ))}
        </ul>
      )}
      <div class="actions">
        {mayUpdate && (
          <>
            <button type="button" class="main" disabled={isBusy || marks.length > 0} onClick={save}>
              Save
            </button>
            <button type="button" disabled={isBusy || marks.length > 0} onClick={check}>
              Check
            </button>
            {(isConflict || isBehind) && (
              <button type="button" disabled={isBusy} onClick={merge}>
                Merge
              </button>
            )}
            {isDirty && (
              <button type="button" class="plain" onClick={reset}>
                Discard changes
              </button>
            )}
          </>
        )}
        {kind.hasStatus && (
          <span class="quiet">The status is on the overview: only its controller writes it.</span>
        )}
      </div>
      <ObjectEditor
        key={mayUpdate ? 'edit' : 'read'}
        way={way}
        setWay={setWay}
        initial={editor.current?.text() ?? toYaml(contentOf(newest))}
        schema={schema}
        handle={editor}
        isReadOnly={!mayUpdate}
        changed={changed}
        submit={() => void save()}
      />
    </div>
  )
}

/** A version that the person has written stands. */
function withVersion(content: Fields, version: string | undefined): Fields {
  const metadata = fieldsOf(content.metadata)
  if (version === undefined || metadata.version !== undefined || metadata.resourceVersion !== undefined)
    return content
  return { ...content, metadata: { ...metadata, version } }
}

function withoutVersion(content: Fields): Fields {
  const { version: _, resourceVersion: __, ...metadata } = fieldsOf(content.metadata)
  return { ...content, metadata }
}

/** Reads how Kubernetes merges a list. */
function listTypeOf(schema: Fields): ListType {
  const type = schema['x-kubernetes-list-type']
  if (type === 'map') return { keys: textsOf(schema['x-kubernetes-list-map-keys']) }
  return type === 'set' ? 'set' : 'atomic'
}
