import type { Answer, Api, Collection } from './api.ts'
import { itemsOf } from './kinds.ts'
import { outcomeOf } from './record.ts'
import type { RunRecorder, WriteOutcome, WriteRecord } from './watch-record/index.ts'

/** Called with each attempt's outcome and its duration in milliseconds. */
export type WriteObserver = (outcome: WriteOutcome, tookMs: number) => void

/** The objects that are written. */
export interface LoadTarget {
  readonly objects: (api: Api) => Collection
  /** Puts a mark into an object that exists. */
  readonly update: (objects: Collection, name: string, mark: string) => Promise<Answer>
}

const items: LoadTarget = {
  objects: itemsOf,
  update: (objects, name, op) => objects.api.put(objects.at(name), objects.body(name, { op })),
}

/** Objects of a definition's kind, where a PUT needs a version. */
export function patchedObjects(objects: LoadTarget['objects']): LoadTarget {
  const update: LoadTarget['update'] = (each, name, op) =>
    each.api.mergePatch(each.at(name), { spec: { op } })
  return { objects, update }
}

/** Several writers. Each writes objects of its own and reports every outcome until it is stopped. */
export class Load {
  readonly outcomes = { acknowledged: 0, refused: 0, unknown: 0 }
  readonly #recorder: RunRecorder
  readonly #writers: Promise<void>[]
  readonly #observe: WriteObserver
  readonly #target: LoadTarget
  #attempts = 0
  #stopped = false
  #wake: (() => void)[] = []

  constructor(
    recorder: RunRecorder,
    api: () => Api,
    writers = 8,
    observe: WriteObserver = () => {},
    target: LoadTarget = items,
  ) {
    this.#recorder = recorder
    this.#observe = observe
    this.#target = target
    this.#writers = Array.from({ length: writers }, (_, n) => this.#write(api, n))
  }

  /** Number of writes with a known outcome. */
  get attempts(): number {
    return this.#attempts
  }

  /** Resolves when this many more writes have been acknowledged. */
  async progress(more: number): Promise<void> {
    const goal = this.outcomes.acknowledged + more
    while (this.outcomes.acknowledged < goal) await new Promise<void>(resolve => this.#wake.push(resolve))
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#writers)
  }

  /** Creates, updates and deletes one object after another. */
  async #write(api: () => Api, writer: number): Promise<void> {
    const { objects, update: change } = this.#target
    for (let round = 0; !this.#stopped; round++) {
      const name = `w${writer}-${round}`
      const create = (op: string) => api().post(objects(api()).path, objects(api()).body(name, { op }))
      const update = (op: string) => change(objects(api()), name, op)
      if (!(await this.#attempt('create', name, `${name}-0`, create))) continue
      for (let step = 1; step <= 3; step++) await this.#attempt('update', name, `${name}-${step}`, update)
      if (round % 2 === 0)
        await this.#attempt('delete', name, undefined, () => api().delete(objects(api()).at(name)))
    }
  }

  /** Makes one write. Returns true if it was acknowledged; an unknown outcome returns false. */
  async #attempt<Mark extends string | undefined>(
    verb: WriteRecord['verb'],
    name: string,
    mark: Mark,
    send: (mark: Mark) => Promise<Answer>,
  ): Promise<boolean> {
    const sentAt = performance.now()
    const outcome = await outcomeOf(() => send(mark))
    this.#observe(outcome, performance.now() - sentAt)
    this.#recorder.wrote({ verb, name, mark, outcome })
    this.#attempts += 1
    this.outcomes[outcome.kind] += 1
    if (outcome.kind !== 'acknowledged') await new Promise(resolve => setTimeout(resolve, 10))
    for (const wake of this.#wake.splice(0)) wake()
    return outcome.kind === 'acknowledged'
  }
}
