import type { Model } from '../../api/model.ts'
import type { ApiObject } from '../../api/object.ts'
import type { Client } from '../../client/client.ts'
import { startTestServer, type TestServer } from '../test-server.ts'
import { ConformanceError } from './conformance-error.ts'
import { ControllerProcess, type ProcessOptions } from './controller-process.ts'
import { conformanceDefaults, pluginOf, type ReconcilerUnderTest } from './reconciler-under-test.ts'
import { FastClock } from './scenario-clock.ts'
import { difference, observeObjects, type Snapshot, withoutUids } from './snapshot.ts'

/** Real ms between two polls. */
const pollMs = 2

/** Polls without a write until the process counts as idle. */
const quietLooks = 4

/** One lifecycle: its own server, its own outside, and one process after another. */
export class Scenario<T extends ApiObject, Outside> implements AsyncDisposable {
  readonly subject: ReconcilerUnderTest<T, Outside>
  readonly outside: Outside
  readonly client: Client
  readonly #server: TestServer
  readonly #clock: FastClock
  /** All served kinds. */
  readonly models: readonly Model[]
  /** The uids of all objects, also of deleted ones. */
  readonly #uids = new Set<string>()
  /** The objects created for the reconciler, as last seen. */
  readonly #objects = new Map<string, T>()
  #process: ControllerProcess | undefined
  /** Options of the process that replaces a dead one. */
  #nextProcess: () => ProcessOptions = () => ({})

  private constructor(
    subject: ReconcilerUnderTest<T, Outside>,
    parts: { outside: Outside; server: TestServer; clock: FastClock; models: readonly Model[] },
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
      const clock = new FastClock(subject.speed ?? conformanceDefaults.speed)
      const plugin = pluginOf(subject, { outside, clock })
      const models = [...new Set<Model>([...plugin.models, subject.model, ...(subject.models ?? [])])]
      const server = await startTestServer({ plugins: [plugin], models })
      return new Scenario(subject, { outside, server, clock, models })
    } catch (error) {
      await dispose(outside)
      throw error
    }
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
    if (first === undefined) throw new ConformanceError('`objects` must return at least one object')
    return first
  }

  /** Creates the first object, or all of them. */
  async create(all = false): Promise<void> {
    const objects = this.subject.objects(this.outside)
    for (const object of all ? objects : objects.slice(0, 1)) {
      const created = await this.client.create(this.subject.model, object)
      this.#uids.add(created.metadata.uid)
      this.#objects.set(created.metadata.name, created)
    }
  }

  async start(options?: ProcessOptions): Promise<void> {
    const { outside } = this
    if (this.#process?.isDead) await this.#process.ended()
    this.#process = await ControllerProcess.start(
      this.subject,
      { outside, clock: this.#clock, transport: this.#server.transport },
      options,
    )
  }

  kill(): void {
    this.#process?.kill()
  }

  /** From now on, a dead process is replaced by one with these options. */
  restartWith(next: () => ProcessOptions): void {
    this.#nextProcess = next
  }

  async deleteAll(): Promise<void> {
    for (const { metadata } of this.objects) await this.client.delete(this.subject.model, metadata.name)
  }

  /** Waits until all objects are converged and nothing changes. @throws ConformanceError on timeout. */
  async converged(): Promise<void> {
    await this.until('the object is converged and nothing changes', async () => {
      return (await this.isConverged()) && (await this.isQuiet())
    })
  }

  /** Returns true if all objects are converged. @throws ConformanceError if one was deleted. */
  async isConverged(): Promise<boolean> {
    const { client, outside, subject } = this
    for (const { metadata } of this.objects) {
      const object = await client.getIfExists(subject.model, metadata.name)
      if (object === undefined)
        throw new ConformanceError(`${metadata.name} was removed, but it was not deleted`)
      this.#objects.set(metadata.name, object)
      if (!(await subject.isConverged({ object, outside, client }))) return false
    }
    return true
  }

  /** Waits until all objects are removed, and checks that they are cleaned up. @throws ConformanceError. */
  async gone(): Promise<void> {
    await this.until('the deleted object is removed', async () => {
      for (const { metadata } of this.objects) {
        const object = await this.client.getIfExists(this.subject.model, metadata.name)
        if (object?.metadata.uid === metadata.uid) {
          this.#objects.set(metadata.name, object)
          return false
        }
      }
      return this.isQuiet()
    })
    await this.cleanedUp()
  }

  /** Checks that nothing is left of the objects, or soon will be. @throws ConformanceError. */
  async cleanedUp(): Promise<void> {
    const { client, outside, subject } = this
    await this.#soon(async () => {
      for (const object of this.objects) {
        if (await subject.isCleanedUp({ object, outside, client })) continue
        return `${object.metadata.name} was removed, but it is not cleaned up`
      }
      return undefined
    })
  }

  /** Reads the object. @throws ConformanceError if it does not exist. */
  async look(): Promise<T> {
    const { name } = this.object.metadata
    const object = await this.client.getIfExists(this.subject.model, name)
    if (object === undefined) throw new ConformanceError(`${name} does not exist`)
    this.#objects.set(name, object)
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
   * Waits until `condition` holds. A dead process is replaced meanwhile.
   * @throws ConformanceError with the state of the process, on timeout.
   */
  async until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
    const { patienceMs = conformanceDefaults.patienceMs } = this.subject
    const deadline = performance.now() + patienceMs
    while (!(await condition())) {
      if (this.#process?.isDead) await this.start(this.#nextProcess())
      if (performance.now() > deadline) {
        throw new ConformanceError(
          `timed out after ${patienceMs} ms, waiting until ${what}\n${this.#describe()}`,
        )
      }
      await pause()
    }
  }

  /** Waits until the process is dead, or idle; then kills it. */
  async died(): Promise<void> {
    for (let quiet = 0; quiet < 5 * quietLooks; quiet = this.process.isIdle ? quiet + 1 : 0) {
      if (this.process.isDead) return
      await pause()
    }
    this.kill()
  }

  async pass(realMs: number): Promise<void> {
    await new Promise(resolve => setTimeout(resolve, realMs))
  }

  /** Returns what is compared between lifecycles. */
  async snapshot(): Promise<Snapshot> {
    const { client, outside, subject } = this
    const objects = await observeObjects(client, this.models, this.#uids)
    const snapshot = { objects, outside: (await subject.world?.({ client, outside })) ?? null }
    return withoutUids(snapshot, this.#uids)
  }

  /** @throws ConformanceError if the snapshot differs from the expected one and stays different. */
  async expectSnapshot(expected: Snapshot): Promise<void> {
    await this.#soon(async () => {
      const found = difference(expected, await this.snapshot())
      return found && `the result differs from an undisturbed lifecycle: ${found}`
    })
  }

  /** Retries for a while, since the garbage collector may need time. */
  async #soon(problem: () => Promise<string | undefined>): Promise<void> {
    const deadline = performance.now() + conformanceDefaults.collectMs
    for (;;) {
      const found = await problem()
      if (found === undefined) return
      if (performance.now() > deadline) throw new ConformanceError(`${found}\n${this.#describe()}`)
      await pause()
    }
  }

  /** Returns the versions of all objects of all kinds. */
  async versions(): Promise<ReadonlyMap<string, string>> {
    const versions = new Map<string, string>()
    for (const model of this.models) {
      for (const { metadata } of (await this.client.list(model)).items) {
        versions.set(`${model.plural}/${metadata.name}`, metadata.version)
      }
    }
    return versions
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill()
    await this.#server.close()
    await dispose(this.outside)
  }

  #describe(): string {
    const objects = this.objects.map(({ metadata, status }) => {
      const { name, version, generation, deletionTimestamp, finalizers = [] } = metadata
      const deleting = deletionTimestamp === undefined ? '' : ', deleting'
      return `${name}: version ${version}, generation ${generation}${deleting}, finalizers [${finalizers}], status ${JSON.stringify(status)}`
    })
    return [...objects, this.#process?.describe() ?? 'no process was started'].join('\n')
  }
}

async function dispose(outside: unknown): Promise<void> {
  if (typeof outside !== 'object' || outside === null) return
  const end: unknown = Reflect.get(outside, Symbol.asyncDispose) ?? Reflect.get(outside, Symbol.dispose)
  if (typeof end === 'function') await end.call(outside)
}

function pause(): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, pollMs))
}
