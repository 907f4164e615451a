/** A value at a time. */
export interface Point {
  readonly atMs: number
  readonly value: number
}

/** How a value moved over a time. */
export interface Trend {
  readonly mean: number
  /** By least squares, in units of the value per hour. */
  readonly perHour: number
  /** What the slope amounts to between the first and the last point. */
  readonly rise: number
  readonly durationMs: number
}

/** @throws RangeError if there are no two points at different times */
export function trendOf(points: readonly Point[]): Trend {
  const [first] = points
  const last = points.at(-1)
  if (first === undefined || last === undefined || last.atMs <= first.atMs)
    throw new RangeError('a trend needs points at two times')
  const meanOf = (of: (point: Point) => number) =>
    points.reduce((sum, point) => sum + of(point), 0) / points.length
  const meanMs = meanOf(({ atMs }) => atMs)
  const mean = meanOf(({ value }) => value)
  const covariance = meanOf(({ atMs, value }) => (atMs - meanMs) * (value - mean))
  const perMs = covariance / meanOf(({ atMs }) => (atMs - meanMs) ** 2)
  const durationMs = last.atMs - first.atMs
  return { mean, perHour: perMs * 3_600_000, rise: perMs * durationMs, durationMs }
}
