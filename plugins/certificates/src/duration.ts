/** Durations are text such as `2160h` or `1h30m`, as in Kubernetes, so that rules in CEL can compare them. */

/** The form of a duration: hours, minutes and seconds, whole numbers, at least one of them. */
export const durationPattern =
  '^([0-9]{1,7}h([0-9]{1,7}m)?([0-9]{1,9}s)?|[0-9]{1,7}m([0-9]{1,9}s)?|[0-9]{1,9}s)$'

const unitMs = { h: 3_600_000, m: 60_000, s: 1_000 } as const

/** Returns the milliseconds of a duration. @throws RangeError for other text, which the schema excludes */
export function parseDuration(text: string): number {
  if (!new RegExp(durationPattern).test(text))
    throw new RangeError(`${JSON.stringify(text)} is not a duration`)
  let ms = 0
  for (const unit of ['h', 'm', 's'] as const) {
    ms += Number(new RegExp(`([0-9]+)${unit}`).exec(text)?.[1] ?? 0) * unitMs[unit]
  }
  return ms
}
