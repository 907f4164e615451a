import { runInThisContext } from 'node:vm'

/** As long as a test may take (vitest.config.ts). */
const limitMs = 300_000

/**
 * Calls a synchronous function, and interrupts it once it has taken as long as a test may take: the runner's own limit cannot.
 * For functions that would take hours if their time grew with the square of their input. @throws Error when interrupted
 */
export function interruptible<T>(run: () => T): T {
  let result: { readonly value: T } | undefined
  Object.assign(globalThis, {
    runInterruptible() {
      result = { value: run() }
    },
  })
  runInThisContext('runInterruptible()', { timeout: limitMs })
  if (result === undefined) throw new Error('the function did not run')
  return result.value
}
