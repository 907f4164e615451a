import type { ComponentChildren } from 'preact'
import { useContext, useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { type Fields, fieldsOf, isFields, listOf } from '../api/json.ts'
import { valueAt } from '../model/field-path.ts'
import { hintOf, type Shape, shapeOf } from '../model/form-shape.ts'
import { isEqual } from '../model/merge.ts'
import { startOf } from '../model/template.ts'
import { toYaml } from '../model/yaml.ts'
import { type FieldProps, FormContext } from './form-context.ts'
import { Scalar } from './form-scalar.tsx'

/** A field of any shape. What cannot be shown as a field is edited in YAML. */
export function Field(props: FieldProps) {
  const { document, problems } = useContext(FormContext)
  const { path, schema, value } = props
  const shape = shapeOf(schema, document, value, path.length)
  const own = problems.filter(each => isEqual(each.path, path)).map(({ message }) => message)
  if (shape.is === 'other') return <Other name={props.name} value={value} why={shape.why} problems={own} />
  if (shape.is === 'group') return <Group {...props} shape={shape} problems={own} />
  if (shape.is === 'list') return <List {...props} shape={shape} problems={own} />
  if (shape.is === 'map') return <Entries {...props} shape={shape} problems={own} />
  return <Scalar {...props} shape={shape} problems={own} />
}

type Composite<Is extends Shape['is']> = FieldProps & {
  readonly shape: Extract<Shape, { is: Is }>
  readonly problems: readonly string[]
}

/** The frame of a field with parts. */
function Frame({
  name,
  schema,
  problems,
  remove,
  children,
}: Pick<FieldProps, 'name' | 'schema' | 'remove'> & {
  readonly problems: readonly string[]
  readonly children: ComponentChildren
}) {
  const id = useId()
  const hint = hintOf(schema)
  return (
    <fieldset aria-describedby={`${id}-hint ${id}-problem`}>
      <legend>
        <bdi>{name}</bdi>
      </legend>
      {remove !== undefined && (
        <button type="button" class="plain remove" onClick={remove}>
          Remove {name}
        </button>
      )}
      <p class="hint" id={`${id}-hint`}>
        {hint}
      </p>
      <p class="problem" id={`${id}-problem`}>
        {problems.join(' ')}
      </p>
      {children}
    </fieldset>
  )
}

function Group(props: Composite<'group'>) {
  const { document, change } = useContext(FormContext)
  const { path, name, schema, value, isRequired, shape } = props
  const isThere = isFields(value)
  const begin = () => change(path, startOf(schema, document, schema.example, 0))
  if (!isThere && !isRequired)
    return (
      <Frame {...props}>
        <button type="button" onClick={begin}>
          Add {name}
        </button>
      </Frame>
    )
  const fields = fieldsOf(value)
  const known = new Set(shape.fields.map(each => each.name))
  const mayRemove = isThere && !isRequired
  return (
    <Frame {...props} remove={props.remove ?? (mayRemove ? () => change(path, undefined) : undefined)}>
      {shape.fields.map(field => (
        <Field
          key={field.name}
          {...field}
          path={[...path, field.name]}
          value={valueAt(fields, [field.name])}
        />
      ))}
      {Object.entries(fields)
        .filter(([each]) => !known.has(each))
        .map(([each, part]) => (
          <Other key={each} name={each} value={part} why="not in the schema" />
        ))}
    </Frame>
  )
}

/** Moves the focus to what was added, or to the button that adds if something was taken away. */
function useMovedFocus() {
  const parts = useRef<HTMLDivElement>(null)
  const adds = useRef<HTMLButtonElement>(null)
  const next = useRef<'added' | 'removed' | undefined>(undefined)
  // Before another key can be typed.
  useLayoutEffect(() => {
    if (next.current === 'removed') adds.current?.focus()
    if (next.current === 'added')
      parts.current?.lastElementChild
        ?.querySelector<HTMLElement>('input, select, textarea, fieldset button:not(.remove)')
        ?.focus()
    next.current = undefined
  })
  return { parts, adds, next }
}

function List(props: Composite<'list'>) {
  const { document, change } = useContext(FormContext)
  const { path, name, schema, value, isRequired, shape } = props
  const { parts, adds, next } = useMovedFocus()
  const items = listOf(value)
  const add = () => {
    next.current = 'added'
    change([...path], [...items, startOf(shape.items, document, undefined, 0)])
  }
  const remove = (at: number) => {
    next.current = 'removed'
    const rest = items.toSpliced(at, 1)
    change(path, rest.length === 0 && !isRequired && schema.default === undefined ? undefined : rest)
  }
  return (
    <Frame {...props}>
      <div ref={parts} class="parts">
        {items.map((item, at) => (
          <Field
            key={at}
            name={`${name} ${at + 1}`}
            schema={shape.items}
            isRequired
            path={[...path, at]}
            value={item}
            remove={() => remove(at)}
            isBare
          />
        ))}
      </div>
      <button type="button" ref={adds} onClick={add}>
        Add to {name}
      </button>
    </Frame>
  )
}

interface Entry {
  readonly key: string
  readonly value: unknown
}

/** Entries keep their places while their keys are typed, also keys that are there twice for a moment. */
function Entries(props: Composite<'map'>) {
  const { document, change } = useContext(FormContext)
  const { path, name, schema, value, isRequired, shape } = props
  const { parts, adds, next } = useMovedFocus()
  const [typed, setTyped] = useState<readonly Entry[]>([])
  const fields = fieldsOf(value)
  const entries = isEqual(fieldsFrom(typed), fields)
    ? typed
    : Object.entries(fields).map(([key, each]) => ({ key, value: each }))
  const write = (given: readonly Entry[]) => {
    setTyped(given)
    const isAway = given.length === 0 && !isRequired && schema.default === undefined
    change(path, isAway ? undefined : fieldsFrom(given))
  }
  const isTwice = (key: string) => entries.filter(each => each.key === key).length > 1
  return (
    <Frame {...props}>
      <div ref={parts} class="parts">
        {entries.map((entry, at) => (
          <div class="entry" key={at}>
            <input
              type="text"
              aria-label={`Key ${at + 1} of ${name}`}
              placeholder="key"
              value={entry.key}
              spellcheck={false}
              autocapitalize="off"
              aria-invalid={isTwice(entry.key)}
              onInput={({ currentTarget }) =>
                write(entries.with(at, { key: currentTarget.value, value: entry.value }))
              }
            />
            <Field
              name={entry.key === '' ? `Value ${at + 1} of ${name}` : entry.key}
              schema={shape.values}
              isRequired
              path={[...path, entry.key]}
              value={entry.value}
              isBare
              isLong={path[0] !== 'metadata'}
              remove={() => {
                next.current = 'removed'
                write(entries.toSpliced(at, 1))
              }}
            />
            {isTwice(entry.key) && <p class="problem">This key is there twice: only the last one is kept.</p>}
          </div>
        ))}
      </div>
      <button
        type="button"
        ref={adds}
        onClick={() => {
          next.current = 'added'
          write([...entries, { key: '', value: startOf(shape.values, document, undefined, 0) }])
        }}
      >
        Add to {name}
      </button>
    </Frame>
  )
}

function fieldsFrom(entries: readonly Entry[]): Fields {
  return Object.fromEntries(entries.map(({ key, value }) => [key, value]))
}

/** Characters of a text that are shown of what is edited in YAML. */
const shownCharacters = 1_000

/** A part that no field can show. */
export function Other({
  name,
  value,
  why,
  problems = [],
}: {
  name: string
  value: unknown
  why: string
  problems?: readonly string[]
}) {
  const { editAsYaml } = useContext(FormContext)
  return (
    <fieldset>
      <legend>
        <bdi>{name}</bdi>
      </legend>
      <p class="hint">
        Edited in YAML: {why}.{' '}
        <button type="button" class="plain" onClick={editAsYaml}>
          Edit {name} in YAML
        </button>
      </p>
      <p class="problem">{problems.join(' ')}</p>
      {value !== undefined && <pre>{toYaml(value).slice(0, shownCharacters)}</pre>}
    </fieldset>
  )
}
