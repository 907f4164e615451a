import type { ApiObject } from '../../api/object.ts'
import type { Transport } from '../../client/transport.ts'
import type { Clock } from '../../clock.ts'
import type { Controller } from '../../controller/controller.ts'
import { createManager, type Manager } from '../../manager/manager.ts'
import { setupPlugin } from '../../manager/plugin-host.ts'
import { type Disturb, type PastState, ProcessTransport } from './process-transport.ts'
import { RecentLog } from './recent-log.ts'
import { pluginOf, type ReconcilerUnderTest } from './reconciler-under-test.ts'
import { ProcessClock } from './scenario-clock.ts'

/** Real ms for a killed process to finish what it is doing: a file access, a local request. */
const endingMs = 500

export interface ProcessOptions {
  readonly disturb?: Disturb
  /** The state that its caches start with. */
  readonly past?: PastState
  readonly disconnected?: boolean
}

/**
 * Simulates a process that runs the reconciler, as `setpoint serve --role controllers` does. It can be killed at any
 * call: from then on no call gets a response, no timer fires and no event arrives, so its code stops at the next await.
 */
export class ControllerProcess {
  readonly transport: ProcessTransport
  readonly log: RecentLog
  readonly manager: Manager
  readonly #clock: ProcessClock
  readonly #controllers: readonly Controller[]

  private constructor(parts: {
    transport: ProcessTransport
    log: RecentLog
    manager: Manager
    clock: ProcessClock
    controllers: readonly Controller[]
  }) {
    this.transport = parts.transport
    this.log = parts.log
    this.manager = parts.manager
    this.#clock = parts.clock
    this.#controllers = parts.controllers
  }

  static async start<T extends ApiObject, Outside>(
    subject: ReconcilerUnderTest<T, Outside>,
    around: { outside: Outside; clock: Clock; transport: Transport },
    { disturb, past, disconnected = false }: ProcessOptions = {},
  ): Promise<ControllerProcess> {
    const clock = new ProcessClock(around.clock)
    const transport: ProcessTransport = new ProcessTransport(around.transport, disturb, () => {
      transport.kill()
      clock.kill()
    })
    if (past !== undefined) transport.showPast(past)
    if (disconnected) transport.disconnect()
    const log = new RecentLog()
    const plugin = pluginOf(subject, { outside: around.outside, clock })
    const manager = createManager({ transport, clock, log, drainTimeoutMs: 0 })
    const { controllers } = await setupPlugin(plugin, { transport, clock, log, manager })
    manager.start()
    return new ControllerProcess({ transport, log, manager, clock, controllers })
  }

  get isDead(): boolean {
    return this.transport.isDead
  }

  /** True if there is no work, except delayed work. */
  get isIdle(): boolean {
    if (this.transport.inFlight > 0) return false
    return this.#controllers.every(({ queue }) => queue.depth === 0 && queue.processing === 0)
  }

  /** Number of calls that may have changed something. */
  get writes(): number {
    return this.transport.calls.filter(({ method }) => method !== 'GET').length
  }

  /** Number of runs in progress, over all controllers. */
  get running(): number {
    return this.#controllers.reduce((sum, { queue }) => sum + queue.processing, 0)
  }

  /** Number of successful runs, over the controllers of this kind. */
  succeeded(plural: string): number {
    return this.#sum(plural, ({ counts }) => counts.succeeded)
  }

  failed(plural: string): number {
    return this.#sum(plural, ({ counts }) => counts.failed)
  }

  /**
   * Waits until its code has stopped. A real process ends at once, this one at its next call. Runs that wait for something
   * else than the API are not awaited.
   */
  async ended(): Promise<void> {
    const deadline = performance.now() + endingMs
    while (this.running > this.transport.unanswered && performance.now() < deadline) {
      await new Promise(resolve => setTimeout(resolve, 1))
    }
  }

  kill(): void {
    this.transport.kill()
    this.#clock.kill()
  }

  /** Describes the state of the process, for the report of a failure. */
  describe(): string {
    const lines = this.#controllers.map(({ name, queue, counts }) => {
      const { depth, delayed, processing } = queue
      return `controller ${name}: ${counts.succeeded} runs succeeded, ${counts.failed} failed; ${processing} in progress, ${depth} ready, ${delayed} delayed`
    })
    if (this.running > 0 && this.transport.inFlight === 0) {
      lines.push(
        'a run has not settled and is not waiting for the API: the promise it awaits may never settle',
      )
    }
    const last = this.transport.calls.slice(-5).map(({ method, path }) => `${method} ${path}`)
    lines.push(`| 'none'}|last calls: ${last.join(', ') || '(no calls)'}|| 'none'}`)
    return [...lines, ...this.log.lines].join('\n')
  }

  #sum(plural: string, count: (controller: Controller) => number): number {
    return this.#controllers
      .filter(({ model }) => model.plural === plural)
      .reduce((sum, controller) => sum + count(controller), 0)
  }
}
