/** A value at a time, and a load that it follows. */
export interface Point {
  readonly atMs: number
  readonly value: number
  readonly load: number
}

/** How a value moved over a time, apart from its load. */
export interface Trend {
  readonly mean: number
  /** By least squares over time and load, in units of the value per hour. */
  readonly perHour: number
  /** By the same, in units of the value per unit of the load. 0 if the load stays the same. */
  readonly perLoad: number
  /** What the slope over time amounts to between the first and the last point. */
  readonly rise: number
  readonly durationMs: number
  /** Share of the load's variance that time explains, from 0 to 1. Near 1, the two effects cannot be told apart. */
  readonly confusion: number
}

/** @throws RangeError if there are no two points at different times */
export function trendOf(points: readonly Point[]): Trend {
  const [first] = points
  const last = points.at(-1)
  if (first === undefined || last === undefined || last.atMs <= first.atMs)
    throw new RangeError('a trend needs points at two times')
  const meanOf = (of: (point: Point) => number) =>
    points.reduce((sum, point) => sum + of(point), 0) / points.length
  const [meanMs, mean, meanLoad] = [
    meanOf(({ atMs }) => atMs),
    meanOf(({ value }) => value),
    meanOf(({ load }) => load),
  ]
  const [time, value, load] = [
    ({ atMs }: Point) => atMs - meanMs,
    (point: Point) => point.value - mean,
    (point: Point) => point.load - meanLoad,
  ]
  const product = (a: (point: Point) => number, b: (point: Point) => number) =>
    meanOf(point => a(point) * b(point))
  const [tt, ll, tl] = [product(time, time), product(load, load), product(time, load)]
  // Rounding is no load.
  const isSteady = ll <= (meanLoad * 1e-6) ** 2
  const confusion = isSteady ? 0 : Math.min(1, tl ** 2 / (tt * ll))
  const determinant = isSteady ? 0 : tt * ll * (1 - confusion)
  const [tv, lv] = [product(time, value), product(load, value)]
  const perMs = determinant === 0 ? tv / tt : (tv * ll - lv * tl) / determinant
  const perLoad = determinant === 0 ? 0 : (lv * tt - tv * tl) / determinant
  const durationMs = last.atMs - first.atMs
  return { mean, perHour: perMs * 3_600_000, perLoad, rise: perMs * durationMs, durationMs, confusion }
}
