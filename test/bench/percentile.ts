export function percentile(ascending: ArrayLike<number>, share: number): number {
  return ascending[Math.floor((ascending.length - 1) * share)] ?? Number.NaN
}

/** Milliseconds of the clock that all processes of a machine share. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000
}
