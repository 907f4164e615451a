import { expect, it } from 'vitest'
import type { Exchange } from '../fixtures/kube-apiserver/record/exchange.js'
import type { Difference } from './differences.ts'
import { type Outcome, Outcomes } from './outcomes.ts'
import { Replay, readRecording } from './recordings.ts'

/** What a replay needs to know of the server. Functions, because it starts after the tests are declared. */
export interface ReplayTarget {
  url(): string
  tokenOf(user: string): string
  /** Values that requests have as `{{name}}`. */
  given?(): Readonly<Record<string, string>>
}

interface Options {
  /** Whether causes, deletions and everything else are the same as well, as for kinds of definitions. */
  readonly isExact?: boolean
}

/** Compares the responses of a server with recorded ones, but for the listed differences. */
export class Replays {
  readonly #listed: ReadonlyMap<string, number>
  readonly #compared = new Set<string>()
  readonly #isExact: boolean

  constructor(differences: readonly Difference[], { isExact = false }: Options = {}) {
    this.#listed = new Map(differences.flatMap(({ responses }) => Object.entries(responses)))
    this.#isExact = isExact
  }

  /** Differences of requests that no recording has. */
  get unknown(): readonly string[] {
    return [...this.#listed.keys()].filter(key => !this.#compared.has(key))
  }

  /** Declares a test for each scenario of a topic. */
  declare(topic: string, target: ReplayTarget): void {
    for (const { name, exchanges } of readRecording(topic))
      it(name, () => this.#compare(name, exchanges, target))
  }

  async #compare(name: string, exchanges: readonly Exchange[], target: ReplayTarget): Promise<void> {
    const replay = new Replay(target.url(), user => target.tokenOf(user), target.given?.())
    const kubernetes = new Outcomes('kubernetes', this.#isExact)
    const setpoint = new Outcomes('setpoint', this.#isExact)
    for (const exchange of exchanges) {
      const key = `${name}: ${exchange.what}`
      this.#compared.add(key)
      const recorded = kubernetes.of(exchange.request, exchange.response)
      const outcome = setpoint.of(exchange.request, await replay.send(exchange.request))
      const status = this.#listed.get(key)
      if (status === undefined)
        expect.soft(outcome, key).toEqual(expectedOf(exchange, recorded, outcome, this.#isExact))
      else {
        expect.soft(outcome.status, key).toBe(status)
        expect.soft(outcome, `${key} no longer differs`).not.toEqual(recorded)
      }
    }
  }
}

/**
 * Returns what Setpoint must respond: the same, except where kube-apiserver cannot decode or handle a malformed
 * request.
 */
function expectedOf({ response }: Exchange, recorded: Outcome, outcome: Outcome, isExact: boolean): unknown {
  const { status, body } = response
  const isRefused = outcome.status >= 400 && outcome.status < 500
  if (status === 500 && isRefused && !isOfWebhook(body)) return outcome
  if (status === 400 && outcome.status === 422 && JSON.stringify(body).includes('cannot be handled as a'))
    return outcome
  // Its router sends a text.
  if (typeof body === 'string' && outcome.status === status) return outcome
  return isExact && recorded.causes ? completed(recorded, outcome) : recorded
}

/** Setpoint always has a reason and names the object, and the field too where kube-apiserver has only a message. */
function completed(recorded: Outcome, outcome: Outcome): Outcome {
  const isNamed = Object.values(recorded.about ?? {}).some(value => value !== undefined)
  return {
    ...recorded,
    ...(recorded.about && { about: isNamed ? recorded.about : (outcome.about ?? {}) }),
    reason: recorded.reason || outcome.reason,
    causes: recorded.causes?.length ? recorded.causes : (outcome.causes ?? []),
  }
}

function isOfWebhook(body: unknown): boolean {
  return JSON.stringify(body).includes('webhook')
}
