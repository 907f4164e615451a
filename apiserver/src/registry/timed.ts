/** Waits for work, and adds the milliseconds that it takes to a part of a request's times. */
export async function timed<T, Part extends string>(
  times: Record<Part, number> | undefined,
  part: Part,
  work: Promise<T>,
): Promise<T> {
  if (times === undefined) return work
  const since = performance.now()
  try {
    return await work
  } finally {
    times[part] += performance.now() - since
  }
}
