import { shortPath } from './call-action.ts'
import type { Call } from './process-transport.ts'

/** Rows shown of a history. */
const shownRows = 14

/** Rows shown before the fault. */
const rowsBefore = 4

/** Characters of a column. */
const columnWidth = 58

interface Note {
  readonly text: string
  readonly isFault: boolean
}

/** The history of one lifecycle: the requests of all its processes with their outcomes, and what the suite did. */
export class Timeline {
  readonly #entries: (Call | Note)[] = []

  call(call: Call): void {
    this.#entries.push(call)
  }

  note(text: string, isFault = false): void {
    this.#entries.push({ text, isFault })
  }

  /** Returns a row for each entry; repetitions are one row. The faults are marked with `>>`. */
  rows(): readonly string[] {
    const rows: { text: string; number: string; mark: string; times: number }[] = []
    for (const entry of this.#entries) {
      const [number, text] = 'text' in entry ? ['', entry.text] : [`${entry.number} `, describe(entry)]
      const mark = ('text' in entry ? entry.isFault : entry.isDisturbed) ? '>> ' : '   '
      const last = rows.at(-1)
      if (last?.text === text && last.mark === mark) last.times++
      else rows.push({ text, number, mark, times: 1 })
    }
    return rows.map(
      ({ text, number, mark, times }) => `${mark}${number}${text}${times > 1 ? ` (${times} times)` : ''}`,
    )
  }
}

/** Shows two histories side by side, from shortly before the first fault. */
export function sideBySide(reference: readonly string[], failing: readonly string[]): string {
  const fault = Math.max(
    0,
    failing.findIndex(row => row.startsWith('>>')),
  )
  const start = Math.max(0, Math.min(fault - rowsBefore, failing.length - shownRows))
  const left = ['   without disturbance', ...excerpt(reference, start)]
  const right = ['   with the disturbance (>>)', ...excerpt(failing, start)]
  return Array.from({ length: Math.max(left.length, right.length) }, (_, at) =>
    `${fit(left[at] ?? '').padEnd(columnWidth)} |${fit(right[at] ?? '')}`.trimEnd(),
  ).join('\n')
}

function excerpt(rows: readonly string[], start: number): string[] {
  const shown = rows.slice(start, start + shownRows)
  const rest = rows.length - start - shown.length
  return [
    ...(start > 0 ? [`   ... ${start} earlier`] : []),
    ...shown,
    ...(rest > 0 ? [`   ... ${rest} more`] : []),
  ]
}

function fit(row: string): string {
  return row.length > columnWidth ? `${row.slice(0, columnWidth - 3)}...` : row
}

function describe({ method, path, executed, outcome }: Call): string {
  const what = `${method} ${shortPath(path)}`
  if (outcome === undefined) return `${what}: no response${executed === undefined ? '' : `, executed`}`
  if (executed === undefined) return `${what}: ${outcome}, not executed`
  return executed === outcome ? `${what}: ${outcome}` : `${what}: ${outcome}, executed`
}
