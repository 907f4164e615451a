import { createContext } from 'preact'
import type { Fields } from '../api/json.ts'
import type { FieldPath } from '../model/field-path.ts'
import type { NamedField } from '../model/form-shape.ts'

/** What the server says of a field. */
export interface FormProblem {
  readonly path: FieldPath
  readonly message: string
}

interface Form {
  /** What references of schemas lead into. */
  readonly document: Fields
  readonly problems: readonly FormProblem[]
  change(path: FieldPath, next: unknown): void
  editAsYaml(): void
}

export const FormContext = createContext<Form>({
  document: {},
  problems: [],
  change() {},
  editAsYaml() {},
})

export interface FieldProps extends NamedField {
  readonly path: FieldPath
  readonly value: unknown
  /** Takes an element of a list, or an entry of a map, away. */
  readonly remove?: (() => void) | undefined
  /** The label is beside the field already. */
  readonly isBare?: boolean
  /** The text may have several lines. */
  readonly isLong?: boolean
}
