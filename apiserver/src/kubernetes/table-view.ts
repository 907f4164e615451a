import type { WireVersion } from '../model/index.ts'
import { recordOf } from './fields.ts'
import { type ListForm, type MetaVersion, metaGroup, type ObjectView } from './object-view.ts'
import { metadataJson, PartialMetadataView } from './partial-metadata.ts'
import type { TableColumns } from './table-columns.ts'
import { encodeRow, type Row, RowCache, rowAt } from './table-row.ts'

/** What the rows of a Table have besides their cells. */
export const includeObjectValues = ['None', 'Metadata', 'Object'] as const
export type IncludeObject = (typeof includeObjectValues)[number]

interface TableOptions {
  readonly metaVersion: MetaVersion
  readonly includeObject: IncludeObject
  readonly rows?: RowCache
  readonly now?: () => number
}

/** The rows of all Tables. */
const allRows = new RowCache()

/** Objects as rows of a Table with the printer columns of their kind. */
export class TableView implements ObjectView {
  readonly key: string
  readonly list: ListForm
  readonly #version: WireVersion
  readonly #columns: TableColumns
  readonly #head: { readonly kind: 'Table'; readonly apiVersion: string }
  readonly #objectOf: (wire: Buffer) => string
  readonly #rows: RowCache
  readonly #now: () => number

  constructor(version: WireVersion, columns: TableColumns, options: TableOptions) {
    const { metaVersion, includeObject, rows = allRows, now = Date.now } = options
    this.key = `Table.${metaVersion}.${includeObject}`
    this.#version = version
    this.#columns = columns
    this.#head = { kind: 'Table', apiVersion: `${metaGroup}/${metaVersion}` }
    this.#objectOf = objectJsonOf(includeObject, new PartialMetadataView(version, metaVersion))
    this.#rows = rows
    this.#now = now
    this.list = {
      head: this.#head,
      fields: { columnDefinitions: columns.definitions },
      itemsField: 'rows',
      isQuick: false,
      itemStart: '',
      item: wire => Buffer.from(this.#row(wire)),
    }
  }

  object(wire: Buffer): Buffer {
    return this.#table(wire, this.#columns.definitions)
  }

  /** As in Kubernetes, only the first event of a watch describes the columns. */
  event(wire: Buffer): Buffer {
    return this.#table(wire, null)
  }

  /**
   * Its metadata has the fields of Go's `metav1.Table` alone: Kubernetes' tests compare it with what Go decodes of it.
   */
  #table(wire: Buffer, columnDefinitions: TableColumns['definitions'] | null): Buffer {
    const { resourceVersion } = JSON.parse(metadataJson(this.#version, wire))
    const head = JSON.stringify({ ...this.#head, metadata: { resourceVersion }, columnDefinitions })
    return Buffer.from(`${head.slice(0, -1)},"rows":[${this.#row(wire)}]}`)
  }

  #row(wire: Buffer): string {
    return rowAt(this.#rows.get(this, wire, this.#make), this.#now())
  }

  readonly #make = (wire: Buffer): Row => {
    const object = recordOf(JSON.parse(wire.toString()))
    const { name = '' } = recordOf(object.metadata)
    const cells = this.#columns.cellsOf(object)
    if (this.#columns.hasName) cells.unshift(String(name))
    return encodeRow(cells, this.#objectOf(wire))
  }
}

function objectJsonOf(includeObject: IncludeObject, metadata: PartialMetadataView): (wire: Buffer) => string {
  if (includeObject === 'None') return () => 'null'
  return includeObject === 'Object' ? wire => wire.toString() : wire => metadata.json(wire)
}
