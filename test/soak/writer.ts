import type { Collection } from '../support/api.ts'
import { outcomeOf } from '../support/record.ts'
import type { RunRecorder } from '../support/watch-record/index.ts'
import type { Random } from './random.ts'
import { vocabulary } from './subjects.ts'

export interface SoakWriterOptions {
  readonly id: string
  /** Returns the collection on a server; called for each attempt. */
  readonly items: () => Collection
  /** The names that only this writer uses. */
  readonly names: readonly string[]
  readonly recorder: RunRecorder
  readonly random: Random
}

/** Milliseconds before a write without a response is given up. */
const patienceMs = 20_000

/** Creates, changes, applies and deletes its own objects at random and reports each attempt. */
export class SoakWriter {
  readonly outcomes = { acknowledged: 0, refused: 0, unknown: 0 }
  readonly #options: SoakWriterOptions
  /** The state as far as this writer knows. */
  readonly #exists = new Map<string, boolean>()
  readonly #running: Promise<void>
  #attempts = 0
  #stopped = false

  constructor(options: SoakWriterOptions) {
    this.#options = options
    this.#running = this.#run()
    this.#running.catch(() => {})
  }

  /** Settles when it has stopped. @throws Error on a response that is neither success nor refusal */
  get ended(): Promise<void> {
    return this.#running
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#running
  }

  async #run(): Promise<void> {
    const { random } = this.#options
    while (!this.#stopped) {
      const outcome = await this.#attempt()
      this.outcomes[outcome] += 1
      const pause = outcome === 'acknowledged' ? random.between(0, 60) : 50
      await new Promise(resolve => setTimeout(resolve, pause))
    }
  }

  async #attempt(): Promise<keyof SoakWriter['outcomes']> {
    const { id, items, names, recorder, random } = this.#options
    const name = random.pick(names)
    const exists = this.#exists.get(name) ?? false
    const verb = !exists ? 'create' : random.chance(0.15) ? 'delete' : 'update'
    const mark = verb === 'delete' ? undefined : `${id}:${this.#attempts++}`
    const outcome = await outcomeOf(() => this.#send(items(), verb, name, mark))
    recorder.wrote({ verb, name, mark, outcome })
    // The next attempt shows the outcome of an unknown one.
    if (outcome.kind === 'acknowledged') this.#exists.set(name, verb !== 'delete')
    else if (outcome.kind === 'unknown') this.#exists.set(name, random.chance(0.5))
    else if (outcome.why === '409') this.#exists.set(name, true)
    else if (outcome.why === '404') this.#exists.set(name, false)
    return outcome.kind
  }

  #send(items: Collection, verb: 'create' | 'update' | 'delete', name: string, mark: string | undefined) {
    const { random } = this.#options
    const { api } = items
    const signal = AbortSignal.timeout(patienceMs)
    if (verb === 'delete') return api.delete(items.at(name), undefined, { signal })
    const { labels, spec } = this.#content(mark)
    const body = items.body(name, spec, { labels })
    // Creates the object too, if it does not exist.
    if (random.chance(0.25)) {
      const type = 'application/apply-patch+yaml'
      const path = `${items.at(name)}?fieldManager=${this.#options.id}&force=true`
      return api.request('PATCH', path, body, { type, signal })
    }
    if (verb === 'create') return api.post(items.path, body, { signal })
    if (random.chance(0.5)) return api.put(items.at(name), body, { signal })
    const patch = { metadata: { labels: orNull(labels) }, spec: orNull(spec) }
    return api.mergePatch(items.at(name), patch, { signal })
  }

  #content(op: string | undefined) {
    const { random } = this.#options
    const { tiers, colours, ranks, levels, tags, codes } = vocabulary
    return {
      labels: { tier: random.pick(tiers), colour: pickMaybe(random, colours) },
      spec: {
        op,
        rank: pickMaybe(random, ranks),
        level: pickMaybe(random, levels),
        code: random.chance(0.3) ? random.pick(codes) : undefined,
        tags: tags.filter(() => random.chance(0.4)),
      },
    }
  }
}

function pickMaybe<T>(random: Random, items: readonly T[]): T | undefined {
  return items[random.below(items.length)]
}

/** In a merge patch, null removes a field. */
function orNull(fields: object): object {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, value ?? null]))
}
