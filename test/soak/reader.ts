import type { Collection } from '../support/api.ts'
import { recordedListOf } from '../support/record.ts'
import type { RunRecorder } from '../support/watch-record/index.ts'
import type { Random } from './random.ts'
import { addressOf, type Subject } from './subjects.ts'

export interface SoakReaderOptions {
  /** Returns the collection on a server; called for each list. */
  readonly items: () => Collection
  readonly topics: readonly Subject[]
  readonly recorder: RunRecorder
  readonly random: Random
}

/** Lists the collections of the watchers from time to time and records the responses. */
export class SoakReader {
  lists = 0
  readonly #options: SoakReaderOptions
  readonly #running: Promise<void>
  #stopped = false

  constructor(options: SoakReaderOptions) {
    this.#options = options
    this.#running = this.#run()
    this.#running.catch(() => {})
  }

  /** Settles when it has stopped. @throws Error on a response that is neither a list nor a refusal */
  get ended(): Promise<void> {
    return this.#running
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#running
  }

  async #run(): Promise<void> {
    const { items, topics, recorder, random } = this.#options
    const collections = topics.filter(({ name }) => name === undefined)
    while (!this.#stopped) {
      const subject = random.pick(collections)
      const { acknowledged } = recorder
      const { api, path } = items()
      const answer = await api.get(addressOf(path, subject)).catch(() => undefined)
      // Without a response, or with a 503, there is nothing to check.
      if (answer !== undefined && answer.status !== 503) {
        const { version, objects } = recordedListOf(answer)
        this.lists += 1
        const name = `list ${this.lists} of ${subject.title}`
        recorder.listed({ name, selects: subject.selects, version, objects, acknowledged })
      }
      await new Promise(resolve => setTimeout(resolve, random.between(100, 500)))
    }
  }
}
