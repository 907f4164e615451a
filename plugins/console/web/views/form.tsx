import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ApiFailure } from '../api/http.ts'
import { type Fields, fieldsOf } from '../api/json.ts'
import { type KindSchema, resolved } from '../api/schema.ts'
import { type FieldPath, isWithin, parseField, valueAt, withValueAt } from '../model/field-path.ts'
import { type NamedField, shapeOf, shownPath } from '../model/form-shape.ts'
import { FormContext, type FormProblem } from './form-context.ts'
import { Field, Other } from './form-field.tsx'

/** What others do with the form: the same as with an editor. */
export interface FormHandle {
  set(value: Fields): void
  /** Shows a refusal at the fields that it names. */
  mark(error: unknown): void
}

/** Metadata that people write; the rest of it is edited as YAML. Names cannot change. */
const named = ['name', 'namespace']
const described = ['labels', 'annotations']

export interface ObjectFormProps {
  readonly initial: Fields
  readonly schema: KindSchema
  readonly isNew: boolean
  readonly handle: { current: FormHandle | undefined }
  readonly changed: (value: Fields) => void
  readonly submit: () => void
  readonly editAsYaml: () => void
}

/** An object as fields, from the schema of its kind. */
export function ObjectForm({ initial, schema, isNew, handle, changed, submit, editAsYaml }: ObjectFormProps) {
  const [value, setValue] = useState(initial)
  const [problems, setProblems] = useState<readonly FormProblem[]>([])
  const root = useRef<HTMLDivElement>(null)
  const isMarked = useRef(false)
  const latest = useRef(value)
  latest.current = value
  const { document } = schema
  const whole = useMemo(() => formSchema(schema), [schema])
  useEffect(() => {
    handle.current = {
      set: setValue,
      mark(error) {
        isMarked.current = true
        setProblems(problemsOf(error, whole, document, latest.current))
      },
    }
    return () => {
      handle.current = undefined
    }
  })
  useEffect(() => {
    if (!isMarked.current) return
    isMarked.current = false
    root.current?.querySelector<HTMLElement>('[aria-invalid=true]')?.focus()
  }, [problems])
  const change = (path: FieldPath, next: unknown) => {
    const all = fieldsOf(withValueAt(latest.current, path, next))
    latest.current = all
    setValue(all)
    setProblems(problems.filter(each => !isWithin(each.path, path)))
    changed(all)
  }
  const metadata = fieldsOf(value.metadata)
  const top = [
    ...fieldsAt(whole, document, 'metadata', isNew ? named : []).filter(
      ({ name }) => name !== 'namespace' || metadata.namespace !== undefined,
    ),
    ...fieldsAt(whole, document).filter(({ name }) => name !== 'status' || value.status !== undefined),
    ...fieldsAt(whole, document, 'metadata', described),
  ]
  const hidden = Object.keys(metadata).filter(name => ![...named, ...described].includes(name))
  const known = new Set(['apiVersion', 'kind', 'metadata', ...top.map(({ name }) => name)])
  const unknown = Object.entries(value).filter(([name]) => !known.has(name))
  return (
    <FormContext.Provider value={{ document, problems, change, editAsYaml }}>
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset would have a border and a legend */}
      <div
        role="group"
        aria-label="Form"
        class="form"
        ref={root}
        onKeyDown={event => {
          if (!(event.ctrlKey || event.metaKey) || (event.key !== 'Enter' && event.key !== 's')) return
          event.preventDefault()
          submit()
        }}
      >
        {top.map(field => (
          <Field key={field.path.join()} {...field} value={valueAt(value, field.path)} />
        ))}
        {unknown.map(([name, part]) => (
          <Other key={name} name={name} value={part} why="not in the schema" />
        ))}
        {hidden.length > 0 && (
          <p class="quiet">
            Edited in YAML: {hidden.map(name => `metadata.${name}`).join(', ')}.{' '}
            <button type="button" class="plain" onClick={editAsYaml}>
              Edit in YAML
            </button>
          </p>
        )}
      </div>
    </FormContext.Provider>
  )
}

/** Returns the schema of an object as people write it. */
function formSchema({ schema, document }: KindSchema): Fields {
  const { apiVersion: _, kind: __, metadata, ...content } = fieldsOf(schema.properties)
  const { properties } = resolved(metadata, document)
  return {
    ...schema,
    properties: { metadata: { type: 'object', required: ['name'], properties }, ...content },
  }
}

/** Returns the fields of an object, or of a part of it. */
function fieldsAt(schema: Fields, document: Fields, part?: string, names?: readonly string[]) {
  const { [part ?? '']: within = schema } = fieldsOf(schema.properties)
  const shape = shapeOf(within, document, undefined, 0)
  const fields: readonly NamedField[] = shape.is === 'group' ? shape.fields : []
  return fields
    .filter(({ name }) => (names === undefined ? name !== 'metadata' : names.includes(name)))
    .map(field => ({ ...field, path: part === undefined ? [field.name] : [part, field.name] }))
}

function problemsOf(error: unknown, schema: Fields, document: Fields, value: Fields): FormProblem[] {
  if (!(error instanceof ApiFailure)) return []
  return error.causes
    .filter(({ field }) => field !== '')
    .map(({ field, message }) => {
      const path = parseField(field)
      const shown = shownPath(schema, document, value, path)
      // Of a field within YAML, the place is told too.
      return { path: shown, message: shown.length === path.length ? message : `${field}: ${message}` }
    })
}
