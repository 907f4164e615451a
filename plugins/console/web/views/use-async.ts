import { useEffect, useState } from 'preact/hooks'

/** Returns the value of a promise once it is there. A rejection leaves it undefined and is told to `failed`. */
export function useAsync<T>(
  load: () => Promise<T>,
  inputs: readonly unknown[],
  failed?: (error: unknown) => void,
): T | undefined {
  const [value, setValue] = useState<T>()
  useEffect(() => {
    let isCurrent = true
    load().then(
      loaded => isCurrent && setValue(() => loaded),
      (error: unknown) => isCurrent && failed?.(error),
    )
    return () => {
      isCurrent = false
    }
  }, [...inputs])
  return value
}
