import timers from 'node:timers'
import timersPromises from 'node:timers/promises'
import type { Replaced } from './replaced.ts'
import type { Scheduler } from './scheduler.ts'
import { WorldImmediate, WorldTimer } from './timers.ts'

/** Gives timers and clocks of the world to the code that runs in it. Code outside keeps the real ones. */
export function replaceTime(replaced: Replaced, scheduler: Scheduler): void {
  const inside = () => scheduler.current !== undefined
  const nodeNow = () => {
    if (scheduler.current === undefined) throw new Error('no part of the world runs')
    return scheduler.current
  }
  const timer = (args: readonly unknown[], repeats: boolean) => {
    const [callback, ms, ...rest] = args
    return new WorldTimer(scheduler, nodeNow(), () => call(callback, rest), { ms, repeats })
  }
  const immediate = ([callback, ...rest]: readonly unknown[]) =>
    new WorldImmediate(scheduler, nodeNow(), () => call(callback, rest))

  for (const target of [globalThis, timers]) {
    replaced.method(target, 'setTimeout', inside, (_, args) => timer(args, false))
    replaced.method(target, 'setInterval', inside, (_, args) => timer(args, true))
    replaced.method(target, 'setImmediate', inside, (_, args) => immediate(args))
    for (const name of ['clearTimeout', 'clearInterval', 'clearImmediate'])
      replaced.method(
        target,
        name,
        () => true,
        (real, args) => {
          const [given] = args
          if (given instanceof WorldTimer || given instanceof WorldImmediate) given.close()
          else real(...args)
        },
      )
  }
  const waits = (start: (done: () => void) => { close(): unknown }, value: unknown, options: unknown) =>
    wait(start, value, signalIn(options))
  replaced.method(timersPromises, 'setTimeout', inside, (_, [ms, value, options]) =>
    waits(done => new WorldTimer(scheduler, nodeNow(), done, { ms }), value, options),
  )
  replaced.method(timersPromises, 'setImmediate', inside, (_, [value, options]) =>
    waits(done => new WorldImmediate(scheduler, nodeNow(), done), value, options),
  )
  replaced.method(AbortSignal, 'timeout', inside, (_, [ms]) => {
    const aborting = new AbortController()
    const late = () =>
      aborting.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
    new WorldTimer(scheduler, nodeNow(), late, { ms })
    return aborting.signal
  })

  const monotonic = () => nodeNow().clock.monotonic(scheduler.now)
  const wall = () => nodeNow().clock.wall(scheduler.now)
  replaced.method(performance, 'now', inside, monotonic)
  replaced.method(Date, 'now', inside, wall)
  const date = new Proxy(Date, {
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length === 0 && inside() ? [wall()] : args, newTarget),
    apply: (target, self, args) =>
      inside() ? new Date(wall()).toString() : Reflect.apply(target, self, args),
  })
  replaced.value(globalThis, 'Date', date)
  replaced.method(process.hrtime, 'bigint', inside, () => BigInt(Math.round(monotonic() * 1e6)))
  replaced.method(process, 'hrtime', inside, () => {
    const ms = monotonic()
    return [Math.floor(ms / 1000), Math.round((ms % 1000) * 1e6)]
  })
}

function call(callback: unknown, args: readonly unknown[]): void {
  if (typeof callback !== 'function') throw new TypeError('the callback of a timer must be a function')
  Reflect.apply(callback, undefined, args)
}

function signalIn(options: unknown): AbortSignal | undefined {
  if (typeof options !== 'object' || options === null) return undefined
  const signal: unknown = Reflect.get(options, 'signal')
  return signal instanceof AbortSignal ? signal : undefined
}

/** As the promises of Node's timers: rejects with an AbortError. */
function wait(
  start: (done: () => void) => { close(): unknown },
  value: unknown,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let pending: { close(): unknown } | undefined
    const aborted = () => {
      pending?.close()
      reject(
        Object.assign(new Error('The operation was aborted', { cause: signal?.reason }), {
          name: 'AbortError',
          code: 'ABORT_ERR',
        }),
      )
    }
    if (signal?.aborted) {
      aborted()
      return
    }
    pending = start(() => {
      signal?.removeEventListener('abort', aborted)
      resolve(value)
    })
    signal?.addEventListener('abort', aborted, { once: true })
  })
}
