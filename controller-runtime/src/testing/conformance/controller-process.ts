import type { ApiObject } from '../../api/object.ts'
import type { Transport } from '../../client/transport.ts'
import type { Clock } from '../../clock.ts'
import type { Controller } from '../../controller/controller.ts'
import { createManager, type Manager } from '../../manager/manager.ts'
import { setupPlugin } from '../../manager/plugin-host.ts'
import type { RandomSource } from '../../random.ts'
import type { TestServer } from '../test-server.ts'
import { type Call, type Disturb, type Phase, ProcessTransport } from './process-transport.ts'
import { RecentLog } from './recent-log.ts'
import { pluginOf, type ReconcilerUnderTest } from './reconciler-under-test.ts'
import { ProcessClock } from './scenario-clock.ts'
import type { Activity } from './wait.ts'

/** Real ms for a killed process to finish what it is doing: a file access, a local request. */
const endingMs = 2_000

/** What the processes of a scenario share. */
export interface ProcessSurroundings<Outside> {
  readonly outside: Outside
  readonly clock: Clock
  readonly random: RandomSource
  readonly transport: Transport
  readonly settingsOf: TestServer['settingsOf']
  readonly phase: () => Phase
  readonly onCall: (call: Call) => void
  readonly onError: (error: string) => void
  readonly onWarning: (message: string) => void
}

export interface ProcessOptions {
  readonly disturb?: Disturb
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
    around: ProcessSurroundings<Outside>,
    { disturb }: ProcessOptions = {},
  ): Promise<ControllerProcess> {
    const clock = new ProcessClock(around.clock)
    const kill = () => {
      transport.kill()
      clock.kill()
    }
    const { phase, onCall, random } = around
    const transport: ProcessTransport = new ProcessTransport(around.transport, {
      disturb,
      kill,
      phase,
      onCall,
    })
    const log = new RecentLog({
      onError(error) {
        if (!transport.isDead) around.onError(error)
      },
      onWarning(message) {
        if (!transport.isDead) around.onWarning(message)
      },
    })
    const plugin = pluginOf(subject, { outside: around.outside, clock, random })
    const manager = createManager({ transport, clock, log, drainTimeoutMs: 0 })
    const { controllers } = await setupPlugin(plugin, {
      transport,
      clock,
      randomSource: random,
      log,
      manager,
      settings: around.settingsOf(plugin),
    })
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

  get activity(): Activity {
    const count = this.#controllers.reduce(
      (sum, { counts }) => sum + counts.succeeded + counts.failed + counts.stale,
      this.transport.activity,
    )
    return { count, isIdle: this.isIdle, isServerBusy: this.transport.isServerBusy }
  }

  /** True if a run does not end and waits for no response. */
  get hangs(): boolean {
    return this.running > 0 && this.transport.inFlight === 0
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
   * Waits until its code has stopped. A real process ends at once, this one at its next call. Runs that wait for
   * something else than the API are not awaited.
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
    if (this.hangs) {
      lines.push(
        'a run has not settled and is not waiting for the API: the promise it awaits may never settle',
      )
    }
    return [...lines, ...this.log.lines].join('\n')
  }

  #sum(plural: string, count: (controller: Controller) => number): number {
    return this.#controllers
      .filter(({ model }) => model.plural === plural)
      .reduce((sum, controller) => sum + count(controller), 0)
  }
}
