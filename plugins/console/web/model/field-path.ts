import { isFields } from '../api/json.ts'

/** The names of the fields, and the places in lists, that lead to a value. */
export type FieldPath = readonly (string | number)[]

/** Reads a field as the server names it: `spec.urls[0].port`, `metadata.labels[example.com/a]`. */
export function parseField(field: string): FieldPath {
  return [...field.matchAll(/\[(\d+)\]|\["?([^"\]]*)"?\]|([^.[\]]+)/g)].map(([, index, key, name]) =>
    index !== undefined ? Number(index) : (key ?? name ?? ''),
  )
}

export function valueAt(value: unknown, path: FieldPath): unknown {
  let at = value
  for (const step of path) {
    if (Array.isArray(at)) at = at[Number(step)]
    else at = isFields(at) && Object.hasOwn(at, String(step)) ? at[step] : undefined
  }
  return at
}

/** Returns the value with another one at a path. Undefined takes the field, or the element of the list, away. */
export function withValueAt(value: unknown, [step, ...rest]: FieldPath, next: unknown): unknown {
  if (step === undefined) return next
  if (Array.isArray(value)) {
    const part = withValueAt(value[Number(step)], rest, next)
    return part === undefined ? value.toSpliced(Number(step), 1) : value.with(Number(step), part)
  }
  const fields = isFields(value) ? value : {}
  const part = withValueAt(Object.hasOwn(fields, step) ? fields[step] : undefined, rest, next)
  const { [step]: _, ...others } = fields
  // A field that is there keeps its place.
  return part === undefined ? others : { ...fields, [step]: part }
}

export function isWithin(path: FieldPath, parent: FieldPath): boolean {
  return parent.every((step, at) => path[at] === step)
}
