import type { Column } from '../api/schema.ts'
import { ageOf, cellText, toneOf } from '../model/cells.ts'
import { now } from './now.ts'

/** A value as text, whatever it is. Good and bad news have a mark beside the word. */
export function Value({ value, type }: { value: unknown; type: Column['type'] }) {
  if (type === 'date' && typeof value === 'string') return <Age time={value} />
  const text = cellText(value)
  const tone = toneOf(value)
  return tone === undefined ? <bdi>{text}</bdi> : <bdi class={`tone ${tone}`}>{text}</bdi>
}

export function Age({ time }: { time: string }) {
  return (
    <time dateTime={time} title={time}>
      {ageOf(time, now.value)}
    </time>
  )
}
