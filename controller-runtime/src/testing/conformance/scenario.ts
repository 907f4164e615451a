import type { Model } from '../../api/model.ts'
import type { ApiObject } from '../../api/object.ts'
import { objectKey } from '../../api/object-key.ts'
import type { Client } from '../../client/client.ts'
import type { Transport } from '../../client/transport.ts'
import { pendingCallsWarning } from '../../controller/pending-calls.ts'
import { isServedByEveryServer } from '../../kinds/served-by-every-server.ts'
import { startTestServer, type TestServer } from '../test-server.ts'
import { ControllerProcess, type ProcessOptions } from './controller-process.ts'
import { Finding } from './finding.ts'
import type { Phase } from './process-transport.ts'
import { conformanceDefaults, pluginOf, type ReconcilerUnderTest } from './reconciler-under-test.ts'
import { ScenarioClock } from './scenario-clock.ts'
import { SeededRandom } from './seeded-random.ts'
import { comparable, compareSnapshots, hasGarbage, observeObjects, type Snapshot } from './snapshot.ts'
import { Timeline } from './timeline.ts'
import { pause, Wait, type WaitOptions } from './wait.ts'

/** Steps without a write until the process counts as idle. */
const quietLooks = 4

/** Steps without activity until a rest is over. */
const restSteps = 20

/** A lifecycle took too long. That says nothing about the reconciler. */
export class OverdueError extends Error {
  override readonly name = 'OverdueError'
}

/** One lifecycle: its own server, its own outside, and one process after another. */
export class Scenario<T extends ApiObject, Outside> implements AsyncDisposable {
  readonly subject: ReconcilerUnderTest<T, Outside>
  readonly outside: Outside
  readonly client: Client
  readonly #server: TestServer
  readonly #clock: ScenarioClock
  readonly #random = new SeededRandom()
  readonly timeline = new Timeline()
  /** What the scenario is waiting for, for the report of an exceeded deadline. */
  waitingFor = 'the scenario starts'
  /** The last logged error of the current process. */
  #lastError: string | undefined
  /** True once a reconcile has returned before its calls. */
  #leavesCalls = false
  #starts = 0
  /** All served kinds. */
  readonly models: readonly Model[]
  /** The uids of all objects, also of deleted ones. */
  readonly #uids = new Set<string>()
  /** The objects created for the reconciler, as last seen. */
  readonly #objects = new Map<string, T>()
  #phase: Phase = 'converging'
  #process: ControllerProcess | undefined
  /** Options of the process that replaces a dead one. */
  #nextProcess: () => ProcessOptions = () => ({})

  private constructor(
    subject: ReconcilerUnderTest<T, Outside>,
    parts: { outside: Outside; server: TestServer; clock: ScenarioClock; models: readonly Model[] },
  ) {
    this.subject = subject
    this.outside = parts.outside
    this.client = parts.server.client
    this.#server = parts.server
    this.#clock = parts.clock
    this.models = parts.models
  }

  static async open<T extends ApiObject, Outside>(
    subject: ReconcilerUnderTest<T, Outside>,
  ): Promise<Scenario<T, Outside>> {
    const outside = await subject.outside()
    try {
      const clock = new ScenarioClock()
      const plugin = pluginOf(subject, { outside, clock, random: new SeededRandom().draw })
      const models = [...new Set<Model>([...plugin.models, subject.model, ...(subject.models ?? [])])]
      const { settings: given = {} } = subject
      const settings = { [plugin.name]: typeof given === 'function' ? given(outside) : given }
      const declared = models.filter(model => !isServedByEveryServer(model))
      const server = await startTestServer({ plugins: [plugin], models: declared, settings })
      const scenario = new Scenario(subject, { outside, server, clock, models })
      try {
        await subject.prepare?.(scenario)
      } catch (error) {
        await server.close()
        throw error
      }
      return scenario
    } catch (error) {
      await dispose(outside)
      throw error
    }
  }

  /** For requests that have no model. */
  get transport(): Transport {
    return this.#server.transport
  }

  /** The current process. @throws Error if none was started. */
  get process(): ControllerProcess {
    if (this.#process === undefined) throw new Error('no process was started')
    return this.#process
  }

  get objects(): readonly T[] {
    return [...this.#objects.values()]
  }

  /** The first object, as last seen. */
  get object(): T {
    const [first] = this.#objects.values()
    if (first === undefined)
      throw new Finding('it has nothing to reconcile', '`objects` must return at least one object')
    return first
  }

  /** Creates the first object, or all of them. */
  async create(all = false): Promise<void> {
    const objects = this.subject.objects(this.outside)
    this.#phase = 'converging'
    for (const object of all ? objects : objects.slice(0, 1)) {
      const created = await this.client.create(this.subject.model, object)
      this.#uids.add(created.metadata.uid)
      const key = objectKey(created.metadata)
      this.#objects.set(key, created)
      this.timeline.note(`${this.subject.model.singular} ${key} is created`)
    }
  }

  async start(options?: ProcessOptions): Promise<void> {
    const { outside } = this
    if (this.#process?.isDead) await this.#process.ended()
    this.#process = undefined
    this.#lastError = undefined
    this.timeline.note(`process ${++this.#starts} starts`)
    const starting = ControllerProcess.start(
      this.subject,
      {
        outside,
        clock: this.#clock,
        random: this.#random.draw,
        transport: this.#server.transport,
        settingsOf: plugin => this.#server.settingsOf(plugin),
        phase: () => this.#phase,
        onCall: call => this.timeline.call(call),
        onError: error => {
          this.#lastError = error
          this.timeline.note(`error: ${error}`)
        },
        onWarning: message => {
          if (message !== pendingCallsWarning('returned')) return
          this.#leavesCalls = true
          this.timeline.note(message)
        },
      },
      options,
    )
    this.#process = await this.pumped('`setup` of the plugin settles', starting)
  }

  /**
   * Returns the result of a lifecycle.
   * @throws OverdueError after `deadlineMs`, for example because a function of the subject never settles
   * @throws Finding if a reconcile returned before its calls of the client, whatever else went wrong because of that
   */
  async inTime<R>(lifecycle: Promise<R>): Promise<R> {
    const { deadlineMs = conformanceDefaults.deadlineMs } = this.subject
    let timer: NodeJS.Timeout | undefined
    const deadline = new Promise<never>((_, reject) => {
      const late = () => {
        const what = `a lifecycle did not end within ${deadlineMs} ms, waiting until ${this.waitingFor}`
        const why = 'a function of the subject never settles, or the machine is very slow (deadlineMs)'
        reject(new OverdueError(`${what}: ${why}\n${this.timeline.rows().join('\n')}`))
      }
      timer = setTimeout(late, deadlineMs)
    })
    try {
      const result = await Promise.race([deadline, lifecycle])
      if (!this.#leavesCalls) return result
    } catch (error) {
      if (!this.#leavesCalls || error instanceof OverdueError) throw error
    } finally {
      clearTimeout(timer)
    }
    throw new Finding('it left calls of the client behind', pendingCallsWarning('returned'))
  }

  /** Advances the controllers' clock a little, because two changes of a person have different times. */
  passTime(): void {
    this.#clock.advance(1)
  }

  /** Returns the result of work that may wait for the controllers' clock. */
  async pumped<R>(what: string, work: Promise<R>): Promise<R> {
    let settled = false
    const end = () => {
      settled = true
    }
    work.then(end, end)
    await this.until(what, () => settled)
    return work
  }

  kill(): void {
    if (this.#process?.isDead) return
    this.timeline.note('the process is killed', true)
    this.#process?.kill()
  }

  /** From now on, a dead process is replaced by one with these options. */
  restartWith(next: () => ProcessOptions): void {
    this.#nextProcess = next
  }

  async deleteAll(): Promise<void> {
    this.#phase = 'deleting'
    for (const { metadata } of this.objects) {
      const key = objectKey(metadata)
      this.timeline.note(`${this.subject.model.singular} ${key} is deleted`)
      await this.client.delete(this.subject.model, key)
    }
  }

  /**
   * Waits until all objects are converged and nothing changes.
   * @throws Finding if that does not happen, or if the result differs from the expected one
   */
  async converged(expected?: Snapshot): Promise<void> {
    await this.until(
      'the object is converged and nothing changes',
      async () => (await this.isConverged()) && (await this.isQuiet()),
      'it never completed its work',
    )
    if (expected !== undefined) await this.expectSnapshot(expected)
  }

  /** Returns true if all objects are converged. @throws Finding if one was deleted. */
  async isConverged(): Promise<boolean> {
    const { client, outside, subject } = this
    for (const { metadata } of this.objects) {
      const key = objectKey(metadata)
      const object = await client.getIfExists(subject.model, key)
      if (object === undefined)
        throw new Finding('it removed the object', `${key} was removed, but it was not deleted`)
      this.#objects.set(key, object)
      if (!(await subject.isConverged({ object, outside, client }))) return false
    }
    return true
  }

  /** Waits until all objects are removed, and checks that they are cleaned up. @throws Finding, as `converged`. */
  async gone(expected?: Snapshot): Promise<void> {
    const isRemoved = async () => {
      for (const { metadata } of this.objects) {
        const key = objectKey(metadata)
        const object = await this.client.getIfExists(this.subject.model, key)
        if (object?.metadata.uid === metadata.uid) {
          this.#objects.set(key, object)
          return false
        }
      }
      return !(await hasGarbage(this.client, this.models)) && this.isQuiet()
    }
    await this.until(
      'the deleted object and its dependents are removed',
      isRemoved,
      'it never let the deleted object go',
    )
    await this.cleanedUp()
    if (expected !== undefined) await this.expectSnapshot(expected)
  }

  /** Checks that nothing is left of the objects, or soon will be. @throws Finding. */
  async cleanedUp(): Promise<void> {
    const { client, outside, subject } = this
    await this.#soon(async () => {
      for (const object of this.objects) {
        if (await subject.isCleanedUp({ object, outside, client })) continue
        return new Finding(
          'it left something behind that it had made for the removed object',
          `${objectKey(object.metadata)} was removed, but it is not cleaned up`,
        )
      }
      return undefined
    })
  }

  /** Reads the object. @throws Finding if it does not exist. */
  async look(): Promise<T> {
    const key = objectKey(this.object.metadata)
    const object = await this.client.getIfExists(this.subject.model, key)
    if (object === undefined) throw new Finding('it removed the object', `${key} does not exist`)
    this.#objects.set(key, object)
    return object
  }

  /** Returns true if the process is alive and idle, and has not written for a moment. */
  async isQuiet(): Promise<boolean> {
    const process = this.#process
    if (process === undefined) return true
    const before = process.writes
    for (let looks = 0; looks < quietLooks; looks++) await pause()
    return !process.isDead && process.isIdle && process.writes === before
  }

  /**
   * Waits until `condition` holds. A dead process is replaced meanwhile, and the clock skips idle times.
   * @param deed what the reconciler did wrong if that does not happen
   * @throws Finding with the state of the process.
   */
  async until(
    what: string,
    condition: () => boolean | Promise<boolean>,
    deed = `it did not get so far that ${what}`,
  ): Promise<void> {
    const { patienceMs = conformanceDefaults.patienceMs } = this.subject
    this.waitingFor = what
    const wait = this.#wait({ patienceMs })
    while (!(await condition())) {
      if (this.#process?.isDead) await this.start(this.#nextProcess())
      const why = this.#loop() ?? (await wait.step())
      if (why === undefined || (await condition())) continue
      throw new Finding(
        `${deed}${this.#reason()}`,
        `gave up waiting until ${what}: ${why}\n${this.#describe()}`,
      )
    }
  }

  /** Lets `ms` of the controllers' clock pass, and whatever is due in them happen. */
  async rest(ms: number, eachStep: () => boolean | Promise<boolean> = () => true): Promise<void> {
    const wait = this.#wait({ patienceMs: ms, quiet: restSteps })
    while ((await wait.step()) === undefined && (await eachStep())) {}
  }

  /**
   * Waits until the process has done something, or has nothing to do: two controllers wake each other at other times in
   * each lifecycle, and may then make fewer calls. What was meant to disturb a call then hits the process at rest.
   */
  async reached(isDone: () => boolean | Promise<boolean>): Promise<void> {
    await this.rest(this.subject.patienceMs ?? conformanceDefaults.patienceMs, async () => !(await isDone()))
  }

  #wait(options: WaitOptions): Wait {
    const look = () => this.#process?.activity ?? { count: 0, isIdle: true, isServerBusy: false }
    return new Wait(this.#clock, look, options)
  }

  /** Returns what is compared between lifecycles. */
  async snapshot(): Promise<Snapshot> {
    const { client, outside, subject } = this
    const objects = await observeObjects(client, this.models, this.#uids)
    const snapshot = { objects, world: (await subject.world?.({ client, outside })) ?? null }
    const texts = new Map([...this.#uids].map(uid => [uid, '<uid>']))
    for (const [text, placeholder] of this.#random.placeholders) texts.set(text, placeholder)
    return comparable(snapshot, { texts, times: this.#clock.times, normalize: subject.normalize })
  }

  /** @throws Finding if the snapshot differs from the expected one and stays different. */
  async expectSnapshot(expected: Snapshot): Promise<void> {
    await this.#soon(async () => compareSnapshots(expected, await this.snapshot(), this.models))
  }

  /** Retries for a while, since the garbage collector may need time. */
  async #soon(problem: () => Promise<Finding | undefined>): Promise<void> {
    this.waitingFor = 'the result equals that of an undisturbed lifecycle'
    const wait = this.#wait({ patienceMs: conformanceDefaults.settleMs })
    for (;;) {
      const found = await problem()
      if (found === undefined) return
      if ((await wait.step()) === undefined) continue
      throw new Finding(found.deed, `${found.message}\n${this.#describe()}`)
    }
  }

  /** Returns the versions of all objects of all kinds. */
  async versions(): Promise<ReadonlyMap<string, string>> {
    const versions = new Map<string, string>()
    for (const model of this.models) {
      for (const { metadata } of (await this.client.list(model)).items) {
        versions.set(`${model.plural}/${objectKey(metadata)}`, metadata.version)
      }
    }
    return versions
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill()
    await this.#server.close()
    await dispose(this.outside)
  }

  /** Returns a reason to give up if the process writes in a loop. */
  #loop(): string | undefined {
    const writes = this.#process?.writes ?? 0
    return writes > conformanceDefaults.endlessWrites ? `it made ${writes} writes` : undefined
  }

  /** Returns why the process does not get further. */
  #reason(): string {
    if (this.#loop() !== undefined) return ': it keeps writing'
    if (this.#process?.hangs) return ': a run never settles'
    return this.#lastError === undefined
      ? ', although its runs succeed'
      : `: its runs fail with "${this.#lastError}"`
  }

  #describe(): string {
    const objects = this.objects.map(({ metadata, status }) => {
      const { version, generation, deletionTimestamp, finalizers = [] } = metadata
      const deleting = deletionTimestamp === undefined ? '' : ', deleting'
      return `${objectKey(metadata)}: version ${version}, generation ${generation}${deleting}, finalizers [${finalizers}], status ${JSON.stringify(status)}`
    })
    return [...objects, this.#process?.describe() ?? 'no process was started'].join('\n')
  }
}

async function dispose(outside: unknown): Promise<void> {
  if (typeof outside !== 'object' || outside === null) return
  const end: unknown = Reflect.get(outside, Symbol.asyncDispose) ?? Reflect.get(outside, Symbol.dispose)
  if (typeof end === 'function') await end.call(outside)
}
