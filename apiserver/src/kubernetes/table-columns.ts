import type { PrinterColumn } from '@setpoint/controller-runtime/api'
import { compileJsonPath } from '@setpoint/controller-runtime/internal'
import { type ComputedColumn, canonical } from '../model/index.ts'

/** A column as a Table describes it. */
interface ColumnDefinition {
  readonly name: string
  readonly type: string
  /** Empty for a column without a format. */
  readonly format: string
  readonly description: string
  /** kubectl shows columns above 0 only in wide output. */
  readonly priority: number
}

/** The value of a cell. A date is shown as its age, which changes. */
export type Cell = string | number | boolean | null | Date

const nameColumn: ColumnDefinition = Object.freeze({
  name: 'Name',
  type: 'string',
  format: 'name',
  description: 'The name of the object.',
  priority: 0,
})

/** The columns of a kind that declares none. */
const defaultColumns: readonly PrinterColumn[] = Object.freeze([
  {
    name: 'Age',
    type: 'date',
    description: 'The time since the object was created.',
    jsonPath: '.metadata.creationTimestamp',
  } as const,
])

/** The columns of one version of a kind: the name, and the declared columns or else the age. */
export class TableColumns {
  readonly definitions: readonly ColumnDefinition[]
  /** True if the first cell is the name. Otherwise the columns contain it, or the kind does not show it. */
  readonly hasName: boolean
  readonly #columns: readonly {
    readonly type: PrinterColumn['type']
    readonly find: (object: Readonly<Record<string, unknown>>) => unknown
  }[]

  /** @throws SyntaxError for a path that does not compile. Those of models and definitions were checked. */
  constructor(declared: readonly (PrinterColumn | ComputedColumn)[]) {
    const columns = declared.length === 0 ? defaultColumns : declared
    this.hasName = !columns.some(column => 'cell' in column && column.name === nameColumn.name)
    this.definitions = [...(this.hasName ? [nameColumn] : []), ...columns.map(definitionOf)]
    this.#columns = columns.map(column => ({
      type: column.type,
      find: 'cell' in column ? column.cell : compileJsonPath(column.jsonPath),
    }))
  }

  /** Returns the cells after the name. A value that is missing, or of another type than its column, is null. */
  cellsOf(object: Readonly<Record<string, unknown>>): Cell[] {
    return this.#columns.map(({ type, find }) => cellOf(type, find(object)))
  }
}

function definitionOf(column: PrinterColumn | ComputedColumn): ColumnDefinition {
  const { name, type, format = '', priority = 0 } = column
  const { description = 'jsonPath' in column ? `The value at ${column.jsonPath}.` : '' } = column
  return { name, type, format, description, priority }
}

function cellOf(type: PrinterColumn['type'], value: unknown): Cell {
  if (value === undefined || value === null) return null
  if (type === 'string') return typeof value === 'string' ? value : canonical(value)
  if (type === 'boolean') return typeof value === 'boolean' ? value : null
  if (type === 'date') return typeof value === 'string' ? dateOf(value) : null
  if (typeof value !== 'number') return null
  return type === 'integer' ? Math.trunc(value) : value
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/
/** Programs in Go write it for a time that is not set. */
const zeroTime = '0001-01-01T00:00:00Z'

function dateOf(text: string): Date | string {
  if (text === '' || text === zeroTime) return '<unknown>'
  const date = new Date(rfc3339.test(text) ? text : Number.NaN)
  return Number.isNaN(date.getTime()) ? '<invalid>' : date
}
