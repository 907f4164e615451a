import type { ApiObject } from '../../api/object.ts'
import type { Transport } from '../../client/transport.ts'
import type { Clock } from '../../clock.ts'
import type { Controller } from '../../controller/controller.ts'
import { createManager, type Manager } from '../../manager/manager.ts'
import { setupPlugin } from '../../manager/plugin-host.ts'
import { type Disturb, type PastState, ProcessTransport } from './process-transport.ts'
import { RecentLog } from './recent-log.ts'
import { pluginOf, type ReconcilerUnderTest } from './reconciler-under-test.ts'
import { MortalClock } from './scenario-clock.ts'

/** Real ms that a process that has died gets for what it is in the middle of: a file, a request to something local. */
const endingMs = 500

export interface ProcessOptions {
  readonly disturb?: Disturb
  /** The state that its caches begin with. */
  readonly past?: PastState
  readonly disconnected?: boolean
}

/**
 * A process that runs the reconciler, as `setpoint serve --role controllers` does, as far as one can be had inside of
 * another: it can be killed at any call. Then no call of it is answered, no timer of it fires and no event reaches it,
 * so that none of its code runs on beyond what it is in the middle of.
 */
export class ControllerProcess {
  readonly transport: ProcessTransport
  readonly log: RecentLog
  readonly manager: Manager
  readonly #clock: MortalClock
  readonly #controllers: readonly Controller[]

  private constructor(parts: {
    transport: ProcessTransport
    log: RecentLog
    manager: Manager
    clock: MortalClock
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
    const clock = new MortalClock(around.clock)
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

  /** Nothing is to be done at the moment, apart from what has been put off. */
  get isIdle(): boolean {
    if (this.transport.inFlight > 0) return false
    return this.#controllers.every(({ queue }) => queue.depth === 0 && queue.processing === 0)
  }

  /** Calls that may have changed something. */
  get writes(): number {
    return this.transport.calls.filter(({ method }) => method !== 'GET').length
  }

  /** Runs that have not ended, over all controllers. */
  get running(): number {
    return this.#controllers.reduce((sum, { queue }) => sum + queue.processing, 0)
  }

  /** Runs that have succeeded, of controllers of this kind. */
  succeeded(plural: string): number {
    return this.#sum(plural, ({ counts }) => counts.succeeded)
  }

  failed(plural: string): number {
    return this.#sum(plural, ({ counts }) => counts.failed)
  }

  /**
   * Waits until none of its code runs any more: a real process ends in the middle of what it does outside of the API,
   * this one at its next call. What never gets there is not waited for.
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

  /** What it is doing, for the report of a failure. */
  describe(): string {
    const lines = this.#controllers.map(({ name, queue, counts }) => {
      const { depth, delayed, processing } = queue
      return `controller ${name}: ${counts.succeeded} runs succeeded, ${counts.failed} failed; ${processing} under way, ${depth} ready, ${delayed} put off`
    })
    if (this.running > 0 && this.transport.inFlight === 0) {
      lines.push(
        'a run has not settled, and waits for nothing of the API: for what it awaits there is no end',
      )
    }
    const last = this.transport.calls.slice(-5).map(({ method, path }) => `${method} ${path}`)
    lines.push(`its last calls: ${last.join(', ') || 'none'}`)
    return [...lines, ...this.log.lines].join('\n')
  }

  #sum(plural: string, count: (controller: Controller) => number): number {
    return this.#controllers
      .filter(({ model }) => model.plural === plural)
      .reduce((sum, controller) => sum + count(controller), 0)
  }
}
