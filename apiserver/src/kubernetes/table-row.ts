import { humanDuration } from './human-duration.ts'
import type { Cell } from './table-columns.ts'

/** The JSON of a row, in pieces around its ages: `{"cells":["a",7,"` and `"],"object":null}` for an age in between. */
export interface Row {
  readonly pieces: readonly string[]
  /** The times whose ages stand between the pieces, in milliseconds since the epoch. */
  readonly dates: readonly number[]
}

/** @param object the JSON of the row's object */
export function encodeRow(cells: readonly Cell[], object: string): Row {
  const pieces: string[] = []
  const dates: number[] = []
  let piece = '{"cells":['
  for (const [at, cell] of cells.entries()) {
    if (at > 0) piece += ','
    if (cell instanceof Date) {
      pieces.push(`${piece}"`)
      dates.push(cell.getTime())
      piece = '"'
    } else piece += JSON.stringify(cell)
  }
  pieces.push(`${piece}],"object":${object}}`)
  return { pieces, dates }
}

/** Returns the JSON of a row with the ages of this moment. */
export function rowAt({ pieces, dates }: Row, now: number): string {
  let json = pieces[0] ?? ''
  for (let at = 0; at < dates.length; at++)
    json += humanDuration(now - (dates[at] ?? 0)) + (pieces[at + 1] ?? '')
  return json
}

export const rowCacheDefaults = Object.freeze({
  /** Bytes of the rows of all kinds, and of the objects that they were made from: some 20,000 rows. */
  maxBytes: 32 * 1024 * 1024,
})

type Generation = Map<object, Map<Buffer, Row>>

/**
 * Rows that have been made, by view and wire JSON. Lists and watches of all clients share them.
 *
 * Keeps two generations of at most half the bound each. A row that is used moves to the young one; when that is full,
 * it becomes the old one, and the previous old one is dropped.
 */
export class RowCache {
  readonly #maxBytes: number
  #young: Generation = new Map()
  #old: Generation = new Map()
  #bytes = 0

  constructor(maxBytes: number = rowCacheDefaults.maxBytes) {
    this.#maxBytes = maxBytes
  }

  /** Returns the row of an object in a view, and makes it if it is missing. */
  get(view: object, wire: Buffer, make: (wire: Buffer) => Row): Row {
    const known = this.#young.get(view)?.get(wire)
    if (known !== undefined) return known
    const row = this.#old.get(view)?.get(wire) ?? make(wire)
    const rows = this.#young.get(view) ?? new Map<Buffer, Row>()
    this.#young.set(view, rows)
    rows.set(wire, row)
    this.#bytes += wire.length + row.pieces.reduce((sum, piece) => sum + piece.length, 0)
    if (this.#bytes > this.#maxBytes / 2) {
      this.#old = this.#young
      this.#young = new Map()
      this.#bytes = 0
    }
    return row
  }
}
