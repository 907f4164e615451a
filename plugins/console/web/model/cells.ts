import type { ApiObject } from '../api/json.ts'
import { fieldsOf, listOf, textOf } from '../api/json.ts'
import type { Column } from '../api/schema.ts'
import { valueAt } from './json-path.ts'

/** Characters of a cell: a row stays a row. */
const cellLength = 200

/** Returns the value of a cell. */
export function cellOf(object: ApiObject, column: Column): unknown {
  if (column.jsonPath !== '') return valueAt(object, column.jsonPath)
  return computed[column.name]?.(object)
}

const countOf = (value: unknown) => Object.keys(fieldsOf(value)).length
const nameOf = (value: unknown) => {
  const { kind, name } = fieldsOf(value)
  return [textOf(kind), textOf(name)].filter(Boolean).join('/').toLowerCase()
}
const latest = (object: ApiObject) =>
  [
    fieldsOf(object.series).lastObservedTime,
    object.lastTimestamp,
    object.deprecatedLastTimestamp,
    object.eventTime,
    object.firstTimestamp,
  ].find(Boolean)

/** The cells of Kubernetes' own kinds that no path gives. */
const computed: Readonly<Record<string, (object: ApiObject) => unknown>> = {
  Age: ({ metadata }) => metadata.creationTimestamp,
  'Created At': ({ metadata }) => metadata.creationTimestamp,
  Count: ({ count, deprecatedCount, series }) => fieldsOf(series).count ?? count ?? deprecatedCount ?? 1,
  Data: ({ data, binaryData }) => countOf(data) + countOf(binaryData),
  'Last Seen': latest,
  Message: ({ message, note }) => message ?? note,
  Name: ({ metadata }) => metadata.name,
  Object: ({ involvedObject, regarding }) => nameOf(involvedObject ?? regarding),
  Reason: ({ reason }) => reason,
  Role: ({ roleRef }) => nameOf(roleRef),
  Secrets: ({ secrets }) => listOf(secrets).length,
  Subjects: ({ subjects }) => listOf(subjects).map(nameOf).join(', '),
  Type: ({ type }) => type,
}

/** Returns a value as the text of a cell. */
export function cellText(value: unknown): string {
  if (value === undefined || value === null) return ''
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  return text.length > cellLength ? `${text.slice(0, cellLength)}…` : text
}

/** Returns the time since a moment as kubectl shows it: `5m`, `3d4h`. */
export function ageOf(time: unknown, now: number): string {
  const at = Date.parse(textOf(time))
  if (Number.isNaN(at)) return cellText(time)
  const seconds = Math.max(0, Math.floor((now - at) / 1000))
  if (seconds < 120) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 10) return seconds % 60 === 0 ? `${minutes}m` : `${minutes}m${seconds % 60}s`
  if (minutes < 180) return `${minutes}m`
  const hours = Math.floor(minutes / 60)
  if (hours < 8) return minutes % 60 === 0 ? `${hours}h` : `${hours}h${minutes % 60}m`
  if (hours < 48) return `${hours}h`
  const days = Math.floor(hours / 24)
  if (days < 8) return hours % 24 === 0 ? `${days}d` : `${days}d${hours % 24}h`
  return days < 730 ? `${days}d` : `${Math.floor(days / 365)}y`
}

/** Words of conditions and phases that are good or bad news, for a colour beside the word. */
export function toneOf(value: unknown): 'good' | 'bad' | 'busy' | undefined {
  if (typeof value !== 'string') return undefined
  if (
    /^(up|ready|started|active|bound|issued|succeeded|running|healthy|true|normal|delivered|available)$/i.test(
      value,
    )
  )
    return 'good'
  if (/^(down|failed|error|degraded|notready|revoked|expired|unhealthy|warning|dead|lost|gone)$/i.test(value))
    return 'bad'
  if (
    /^(pending|starting|terminating|unknown|progressing|deleting|issuing|disabled|retrying|waiting)$/i.test(
      value,
    )
  )
    return 'busy'
  return undefined
}
