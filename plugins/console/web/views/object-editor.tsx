import type { ComponentType } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { wordsOf } from '../api/http.ts'
import { type Fields, fieldsOf } from '../api/json.ts'
import type { KindSchema } from '../api/schema.ts'
import { fromYaml, toYaml } from '../model/yaml.ts'
import type { FormHandle, ObjectFormProps } from './form.tsx'
import { type EditorHandle, YamlEditor } from './yaml-editor.tsx'

export type Way = 'form' | 'yaml'

/** An object as YAML or as a form. What was typed in one is there in the other. */
export function ObjectEditor({
  way,
  setWay,
  isNew = false,
  initial,
  schema,
  handle,
  focuses = false,
  isReadOnly = false,
  changed = () => {},
  submit,
}: {
  way: Way
  setWay: (way: Way) => void
  isNew?: boolean
  initial: string
  schema: KindSchema | undefined
  handle: { current: EditorHandle | undefined }
  focuses?: boolean
  isReadOnly?: boolean
  changed?: () => void
  submit: () => void
}) {
  /** The text, whichever way it is edited, and what was read from it last: a text may be long. */
  const text = useRef(initial)
  const parsed = useRef<{ readonly text: string; readonly value: Fields | string } | undefined>(undefined)
  const read = (given: string): Fields | string => {
    if (parsed.current?.text !== given) parsed.current = { text: given, value: parse(given) }
    return parsed.current.value
  }
  const editor = useRef<EditorHandle | undefined>(undefined)
  const form = useRef<FormHandle | undefined>(undefined)
  const [problem, setProblem] = useState('')
  const [Form, setForm] = useState<ComponentType<ObjectFormProps>>()
  const wantsForm = way === 'form' && schema !== undefined && !isReadOnly
  useEffect(() => {
    if (!wantsForm || Form !== undefined) return
    void import('./form.tsx').then(
      ({ ObjectForm }) => setForm(() => ObjectForm),
      (error: unknown) => setProblem(wordsOf(error)),
    )
  }, [wantsForm])
  const choose = (next: Way) => {
    setProblem('')
    setWay(next)
  }
  const edited = () => {
    text.current = editor.current?.text() ?? text.current
    changed()
  }
  useEffect(() => {
    handle.current = {
      text: () => editor.current?.text() ?? text.current,
      set(next) {
        text.current = next
        editor.current?.set(next)
        const value = read(next)
        if (typeof value === 'string') choose('yaml')
        else form.current?.set(value)
      },
      mark(error) {
        editor.current?.mark(error)
        form.current?.mark(error)
      },
    }
    return () => {
      handle.current = undefined
    }
  })
  const value = wantsForm ? read(text.current) : ''
  const ways = [
    ['form', 'Form'],
    ['yaml', 'YAML'],
  ] as const
  return (
    <>
      {schema !== undefined && !isReadOnly && (
        // biome-ignore lint/a11y/useSemanticElements: a fieldset would have a border and a legend
        <div role="group" aria-label="Edit as" class="ways">
          {ways.map(([each, title]) => (
            <button type="button" key={each} aria-pressed={way === each} onClick={() => choose(each)}>
              {title}
            </button>
          ))}
        </div>
      )}
      {problem !== '' && (
        <div role="alert" class="alert">
          {problem}
        </div>
      )}
      {typeof value === 'string' ? (
        <>
          {wantsForm && (
            <div role="alert" class="alert">
              A form cannot show this text: {value}
            </div>
          )}
          <YamlEditor
            label="YAML"
            initial={text.current}
            schema={schema}
            handle={editor}
            focuses={focuses}
            isReadOnly={isReadOnly}
            changed={edited}
            submit={submit}
          />
        </>
      ) : Form === undefined || schema === undefined ? (
        <p class="quiet">Loading the form…</p>
      ) : (
        <Form
          initial={value}
          schema={schema}
          isNew={isNew}
          handle={form}
          changed={next => {
            text.current = toYaml(next)
            parsed.current = { text: text.current, value: next }
            changed()
          }}
          submit={submit}
          editAsYaml={() => choose('yaml')}
        />
      )}
    </>
  )
}

/** Returns the object of a text, or why there is none. */
function parse(text: string): Fields | string {
  try {
    return fieldsOf(fromYaml(text))
  } catch (error) {
    return wordsOf(error)
  }
}
