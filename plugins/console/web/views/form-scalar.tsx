import type { AriaAttributes, TargetedEvent } from 'preact'
import { useContext, useId, useRef } from 'preact/hooks'
import { hintOf, numberProblem, type Shape, typedNumber } from '../model/form-shape.ts'
import { startOf } from '../model/template.ts'
import { type FieldProps, FormContext } from './form-context.ts'

type ScalarShape = Exclude<Shape, { is: 'group' | 'list' | 'map' | 'other' }>

interface ScalarProps extends FieldProps {
  readonly shape: ScalarShape
  readonly problems: readonly string[]
}

/** A field with one value: a label, the control, what is asked of it, and what is wrong with it. */
export function Scalar(props: ScalarProps) {
  const { name, schema, value, isRequired, shape, problems, remove, path, isBare = false } = props
  const { document, change } = useContext(FormContext)
  const id = useId()
  const own =
    shape.is === 'number' || shape.is === 'integer' ? numberProblem(value, shape.is === 'integer') : ''
  const problem = [own, ...problems].filter(each => each !== '').join(' ')
  const hint = isBare ? '' : hintOf(schema)
  return (
    <div class={isBare ? 'field bare' : 'field'}>
      {!isBare && (
        <div class="label">
          <label for={id}>
            <bdi>{name}</bdi>
          </label>
          {isRequired && (
            <span class="required" aria-hidden="true">
              required
            </span>
          )}
        </div>
      )}
      <div class="control">
        <Control
          {...props}
          id={id}
          attributes={{
            'aria-describedby': [hint && `${id}-hint`, problem && `${id}-problem`].filter(Boolean).join(' '),
            'aria-invalid': problem !== '',
            'aria-required': isRequired,
            ...(isBare && { 'aria-label': name }),
          }}
        />
        {schema.nullable === true && (
          <label class="null">
            <input
              type="checkbox"
              aria-label={`${name} is null`}
              checked={value === null}
              onChange={({ currentTarget }) =>
                change(
                  path,
                  currentTarget.checked
                    ? null
                    : isRequired
                      ? startOf(schema, document, undefined, 0)
                      : undefined,
                )
              }
            />{' '}
            null
          </label>
        )}
        {remove !== undefined && (
          <button type="button" class="plain remove" aria-label={`Remove ${name}`} onClick={remove}>
            Remove
          </button>
        )}
      </div>
      {hint !== '' && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {problem !== '' && (
        <p class="problem" id={`${id}-problem`}>
          {problem}
        </p>
      )}
    </div>
  )
}

interface ControlProps extends ScalarProps {
  readonly id: string
  readonly attributes: AriaAttributes
}

function Control(props: ControlProps) {
  const { shape } = props
  if (shape.is === 'boolean') return <Truth {...props} />
  if (shape.is === 'choice') return <Choice {...props} values={shape.values} />
  return <Text {...props} />
}

/** A checkbox, unless the absence of a value may mean something else than false. */
function Truth(props: ControlProps) {
  const { id, attributes, path, value, schema, isRequired } = props
  const { change } = useContext(FormContext)
  const preset = schema.default
  if (schema.nullable === true || (!isRequired && typeof preset !== 'boolean'))
    return <Choice {...props} values={[true, false]} />
  return (
    <input
      {...attributes}
      type="checkbox"
      id={id}
      checked={typeof value === 'boolean' ? value : preset === true}
      onChange={({ currentTarget }) => change(path, currentTarget.checked)}
    />
  )
}

function Choice({
  id,
  attributes,
  path,
  value,
  schema,
  isRequired,
  values,
}: ControlProps & { readonly values: readonly unknown[] }) {
  const { change } = useContext(FormContext)
  const preset = schema.default
  const at = values.indexOf(value)
  // A value that the schema does not have stays until another one is chosen.
  const isForeign = value !== undefined && value !== null && at < 0
  return (
    <select
      {...attributes}
      id={id}
      disabled={value === null}
      value={isForeign ? 'foreign' : at < 0 ? '' : String(at)}
      onChange={({ currentTarget }) =>
        change(path, currentTarget.value === '' ? undefined : values[Number(currentTarget.value)])
      }
    >
      {(!isRequired || at < 0) && <option value="">{unset(isRequired, preset)}</option>}
      {isForeign && <option value="foreign">{String(value)}</option>}
      {values.map((each, index) => (
        <option key={String(each)} value={String(index)}>
          {String(each)}
        </option>
      ))}
    </select>
  )
}

function unset(isRequired: boolean, preset: unknown): string {
  return isRequired ? 'choose one' : preset === undefined ? 'not set' : `not set: ${preset}`
}

/** Most lines of a text that are in sight at once. */
const maxLines = 12

function Text({ id, attributes, path, value, schema, isRequired, shape, isLong = false }: ControlProps) {
  const { change } = useContext(FormContext)
  const text = value === undefined || value === null ? '' : String(value)
  const isNumber = shape.is === 'number' || shape.is === 'integer'
  const read = (typed: string, isWhole: boolean) => {
    if (isNumber) return typedNumber(typed, isWhole)
    if (typed === '' && !isRequired) return undefined
    return shape.is === 'integer-or-text' && /^(0|[1-9]\d{0,14})$/.test(typed) ? Number(typed) : typed
  }
  const common = {
    ...attributes,
    id,
    value: text,
    disabled: value === null,
    spellcheck: false,
    autocapitalize: 'off' as const,
    autocomplete: 'off' as const,
    placeholder: isNumber && schema.default !== undefined ? String(schema.default) : '',
    onInput: ({ currentTarget }: TargetedEvent<HTMLInputElement | HTMLTextAreaElement>) =>
      change(path, read(currentTarget.value, false)),
    onChange: ({ currentTarget }: TargetedEvent<HTMLInputElement | HTMLTextAreaElement>) => {
      const whole = read(currentTarget.value, true)
      if (whole !== value) change(path, whole)
    },
  }
  // A field that is typed into stays the same element.
  const hasLines = useRef(isLong && shape.is === 'text')
  hasLines.current ||= text.includes('\n')
  if (hasLines.current) return <textarea {...common} rows={Math.min(maxLines, text.split('\n').length)} />
  return <input type="text" {...common} inputMode={isNumber ? 'decimal' : undefined} />
}
