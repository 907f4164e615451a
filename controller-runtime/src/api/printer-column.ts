import { errorMessage } from './error-message.ts'
import { isRecord } from './is-record.ts'
import { compileJsonPath } from './json-path.ts'
import { type KeysOf, unknownKeys } from './known-keys.ts'

/** A column of tables that display objects of a kind. */
export interface PrinterColumn {
  readonly name: string
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'date'
  /** OpenAPI format of the type, for example `int64` or `date-time`. */
  readonly format?: string
  /** JSON path of the value, for example `.spec.email` or `.status.conditions[?(@.type=="Ready")].status`. */
  readonly jsonPath: string
  readonly description?: string
  /** Columns with a priority above 0 appear only in wide output. */
  readonly priority?: number
}

const columnKeys: KeysOf<PrinterColumn> = {
  name: true,
  type: true,
  format: true,
  jsonPath: true,
  description: true,
  priority: true,
}

const columnTypes: ReadonlySet<unknown> = new Set(['string', 'integer', 'number', 'boolean', 'date'])
const columnFormats: ReadonlySet<unknown> = new Set([
  'binary',
  'bool',
  'byte',
  'date',
  'date-time',
  'double',
  'float',
  'int32',
  'int64',
  'password',
])

/** Returns the problems of `printerColumns` in a declaration. */
export function problemsOfColumns(columns: unknown): string[] {
  if (!Array.isArray(columns)) return ['printerColumns must be an array']
  return columns.flatMap((column, at) => problemsOfColumn(column, `printerColumns[${at}]`))
}

function problemsOfColumn(column: unknown, place: string): string[] {
  if (!isRecord(column)) return [`${place} must be an object`]
  const { name, type, format = 'date', jsonPath, description = '', priority = 0 } = column
  return [
    ...unknownKeys(column, columnKeys, place),
    ...(typeof name === 'string' && name !== '' ? [] : [`${place}.name must be a string`]),
    ...(columnTypes.has(type) ? [] : [`${place}.type must be one of ${[...columnTypes].join(', ')}`]),
    ...(columnFormats.has(format) ? [] : [`${place}.format must be one of ${[...columnFormats].join(', ')}`]),
    ...problemsOfPath(jsonPath, place),
    ...(typeof description === 'string' ? [] : [`${place}.description must be a string`]),
    ...(Number.isSafeInteger(priority) ? [] : [`${place}.priority must be an integer`]),
  ]
}

function problemsOfPath(path: unknown, place: string): string[] {
  if (typeof path !== 'string') return [`${place}.jsonPath must be a path such as .spec.email`]
  try {
    compileJsonPath(path)
    return []
  } catch (error) {
    return [
      `${place}.jsonPath ${JSON.stringify(path)} must be a path such as .spec.email: ${errorMessage(error)}`,
    ]
  }
}
