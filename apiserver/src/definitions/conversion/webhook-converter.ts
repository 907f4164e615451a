import { randomUUID } from 'node:crypto'
import { type Clock, type Logger, systemClock } from '@setpoint/controller-runtime'
import { errorMessage } from '@setpoint/controller-runtime/api'
import { unlessAborted } from '@setpoint/controller-runtime/internal'
import {
  type BareObject,
  type Conversion,
  ConversionError,
  ConversionNeeded,
  type Converter,
  type Release,
} from '../../model/index.ts'
import type { WebhookClient, WebhookTarget } from '../webhooks/index.ts'
import {
  type ConversionKey,
  type ConversionMemory,
  conversionKey,
  type Outcome,
} from './conversion-memory.ts'
import {
  convertedObjects,
  RefusedConversionError,
  reviewRequest,
  reviewVersionOf,
} from './conversion-review.ts'
import { convertedObject } from './converted-object.ts'

export const converterDefaults = Object.freeze({
  /** Milliseconds for one request, as in Kubernetes. */
  timeoutMs: 30_000,
  /** Requests for the objects of one that was refused. */
  requests: 50,
  /** Objects and bytes of one request. An object that is larger has a request of its own. */
  objects: 500,
  bytes: 1024 * 1024,
  /** Bytes of a response: objects may grow. */
  responseBytes: 8 * 1024 * 1024,
})

/** The conversion of a definition. */
export interface ConversionTarget {
  /** Of the definition. */
  readonly name: string
  /** Differs for two webhooks. */
  readonly id: string
  /** Where the webhook is. @throws Error that says why that is not known */
  target(): WebhookTarget
  /** The versions of ConversionReview that it takes. */
  readonly reviewVersions: readonly string[]
}

/** Told of each request to a webhook. */
export type ConversionObserver = (seconds: number, succeeded: boolean) => void

interface ConverterParts {
  readonly client: Pick<WebhookClient, 'post'>
  readonly memory: ConversionMemory
  readonly log: Logger
  readonly observe?: ConversionObserver
  readonly clock?: Clock
}

interface Pending extends Conversion {
  readonly key: ConversionKey
  /** Of its JSON. */
  readonly bytes: number
}

interface Outcomes {
  readonly all: ReadonlyMap<ConversionKey, Outcome>
  /** The failure of a request, if further ones would fail as well. */
  readonly endsWith?: Outcome | undefined
}

/** Converts by the webhook of a definition. */
export class WebhookConverter implements Converter {
  readonly #definition: ConversionTarget
  readonly #parts: ConverterParts
  /** The requests under way, by what they convert. */
  readonly #running = new Map<ConversionKey, Promise<Outcomes>>()

  constructor(definition: ConversionTarget, parts: ConverterParts) {
    this.#definition = definition
    this.#parts = parts
  }

  convert(object: BareObject, to: string): BareObject {
    if (object.apiVersion === to) return object
    const { key } = this.#pending({ object, to })
    const outcome = this.#parts.memory.find(key)
    if (outcome === undefined) throw new ConversionNeeded(this, object, to)
    if (outcome.failure !== undefined) throw outcome.failure
    return JSON.parse(outcome.json)
  }

  async prepare(conversions: readonly Conversion[], signal?: AbortSignal): Promise<Release> {
    const { memory } = this.#parts
    const left = new Map(conversions.map(each => this.#pending(each)).map(each => [each.key, each]))
    const releases: Release[] = []
    const settle = (key: ConversionKey, outcome: Outcome) => {
      if (left.delete(key)) releases.push(memory.hold(key, outcome))
    }
    const release = () => {
      for (const each of releases) each()
    }
    try {
      while (left.size > 0) {
        for (const key of left.keys()) {
          const known = memory.find(key)
          if (known !== undefined) settle(key, known)
        }
        const settled = await unlessAborted(this.#askFor(left), signal)
        for (const { all } of settled) for (const [key, outcome] of all) settle(key, outcome)
        // The next request would fail as this one, perhaps after as long.
        const end = settled.find(({ endsWith }) => endsWith !== undefined)?.endsWith
        if (end !== undefined) for (const key of left.keys()) settle(key, end)
      }
      return release
    } catch (error) {
      release()
      throw error
    }
  }

  /** Joins the requests under way that convert something of this, and sends one more for what fits into it. */
  #askFor(left: ReadonlyMap<ConversionKey, Pending>): Promise<Outcomes[]> {
    const joined = new Set<Promise<Outcomes>>()
    const batch: Pending[] = []
    let room: number = converterDefaults.bytes
    for (const pending of left.values()) {
      const running = this.#running.get(pending.key)
      const [first = pending] = batch
      if (running !== undefined) joined.add(running)
      else if (pending.to === first.to && batch.length < converterDefaults.objects) {
        room -= pending.bytes
        if (room < 0 && batch.length > 0) break
        batch.push(pending)
      }
    }
    if (batch.length > 0) joined.add(this.#start(batch))
    return Promise.all(joined)
  }

  /** Never rejects. */
  #start(batch: readonly Pending[]): Promise<Outcomes> {
    const running = this.#convertAll(batch, { requests: converterDefaults.requests }).finally(() => {
      for (const { key } of batch) this.#running.delete(key)
    })
    for (const { key } of batch) this.#running.set(key, running)
    return running
  }

  /** If the webhook refuses several objects, asks for each half, so that one object does not keep the others from it. */
  async #convertAll(batch: readonly Pending[], bound: { requests: number }): Promise<Outcomes> {
    bound.requests--
    const { log, observe, clock = systemClock } = this.#parts
    const since = clock.monotonic()
    const called = (succeeded: boolean) => observe?.((clock.monotonic() - since) / 1000, succeeded)
    try {
      const all = await this.#request(batch)
      called(true)
      return { all }
    } catch (error) {
      called(false)
      const isRefusal = error instanceof RefusedConversionError
      if (isRefusal && batch.length > 1 && bound.requests > 0) {
        const middle = batch.length >>> 1
        const first = await this.#convertAll(batch.slice(0, middle), bound)
        const rest = batch.slice(middle)
        const { endsWith } = first
        const second =
          endsWith === undefined
            ? await this.#convertAll(rest, bound)
            : { all: new Map(rest.map(({ key }) => [key, endsWith])), endsWith }
        return { all: new Map([...first.all, ...second.all]), endsWith: second.endsWith }
      }
      const { name } = this.#definition
      log.warn({ definition: name, objects: batch.length, err: error }, 'failed to convert objects')
      const problem = `failed: ${errorMessage(error)}`
      const all = new Map(batch.map(each => [each.key, failed(each, problem)]))
      return { all, endsWith: isRefusal ? undefined : all.values().next().value }
    }
  }

  /** @throws RefusedConversionError; Error that says why the request failed */
  async #request(batch: readonly Pending[]): Promise<Map<ConversionKey, Outcome>> {
    const { target, reviewVersions } = this.#definition
    const version = reviewVersionOf(reviewVersions)
    if (version === undefined) throw new Error('no supported conversion review versions')
    const uid = randomUUID()
    const { timeoutMs, responseBytes: maxBytes } = converterDefaults
    const to = batch[0]?.to ?? ''
    const request = reviewRequest(
      version,
      uid,
      to,
      batch.map(({ object }) => object),
    )
    const response = await this.#parts.client.post(target(), request, { timeoutMs, maxBytes })
    const objects = convertedObjects(version, uid, response)
    if (objects.length !== batch.length) {
      const problem = `returned ${objects.length} objects, expected ${batch.length}`
      return new Map(batch.map(pending => [pending.key, failed(pending, problem)]))
    }
    return new Map(batch.map((pending, at) => [pending.key, outcomeOf(pending, objects[at])]))
  }

  #pending({ object, to }: Conversion): Pending {
    const json = JSON.stringify(object)
    return { object, to, key: conversionKey(this.#definition.id, json, to), bytes: json.length }
  }
}

function outcomeOf(pending: Pending, converted: unknown): Outcome {
  try {
    return { json: JSON.stringify(convertedObject(pending.object, converted, pending.to)) }
  } catch (error) {
    return failed(pending, errorMessage(error))
  }
}

/** @param problem a predicate of the webhook, in the words of Kubernetes */
function failed({ object, to }: Conversion, problem: string): Outcome {
  const message = `conversion webhook for ${object.apiVersion}, Kind=${object.kind} ${problem}`
  return {
    failure: new ConversionError(message, {
      to: to.slice(to.indexOf('/') + 1),
      problem: message,
      mayPass: true,
    }),
  }
}
