import { readFileSync } from 'node:fs'
import { linkedSignal } from '@setpoint/controller-runtime'
import {
  type Exchange,
  isRemoval,
  keptOf,
  Normaliser,
  type Request,
  type Response,
  Saved,
  settle,
  userAgent,
} from '../fixtures/kube-apiserver/record/exchange.js'

/** Recorded exchanges with a real kube-apiserver. See `test/fixtures/kube-apiserver/README.md`. */

export interface Scenario {
  readonly name: string
  readonly exchanges: readonly Exchange[]
}

export function readRecording(topic: string): readonly Scenario[] {
  const file = new URL(`../fixtures/kube-apiserver/recordings/${topic}.jsonl`, import.meta.url)
  const [, ...lines] = readFileSync(file, 'utf8').trim().split('\n')
  const scenarios: { name: string; exchanges: Exchange[] }[] = []
  for (const line of lines) {
    const read: { scenario: string } | Exchange = JSON.parse(line)
    if ('scenario' in read) scenarios.push({ name: read.scenario, exchanges: [] })
    else scenarios.at(-1)?.exchanges.push(read)
  }
  return scenarios
}

/** Sends the requests of one scenario to a server, with the values of its own responses. */
export class Replay {
  readonly #url: string
  readonly #tokenOf: (user: string) => string
  readonly #given: Readonly<Record<string, string>>
  readonly #saved: Saved
  readonly #normaliser: Normaliser
  #patienceMs = patienceMs

  constructor(url: string, tokenOf: (user: string) => string, given: Readonly<Record<string, string>> = {}) {
    this.#url = url
    this.#tokenOf = tokenOf
    this.#given = given
    this.#saved = new Saved(given)
    this.#normaliser = new Normaliser(given)
  }

  async send(recorded: Request): Promise<Response> {
    const request = this.#saved.fill(recorded)
    const answer = await settle(request, () => this.#ask(request), this.#patienceMs)
    // The rest of the scenario cannot be as recorded, so it need not be waited for.
    if (!answer.isSettled) this.#patienceMs = 0
    const { status, bodies, warning } = answer
    this.#saved.keep(recorded, bodies[0])
    const normaliser = isRemoval(request, bodies) ? new Normaliser(this.#given) : this.#normaliser
    const normal = bodies.map(each => keptOf(recorded, normaliser.normalise(each)))
    return {
      status,
      ...(warning !== null && { warnings: [warning] }),
      ...(request.events === undefined || status !== 200 ? { body: normal[0] } : { events: normal }),
    }
  }

  async #ask({ method, path, user = 'admin', headers = {}, body, events }: Request) {
    const stop = linkedSignal(AbortSignal.timeout(patienceMs))
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: {
        'user-agent': userAgent,
        ...(user !== '' && { authorization: `Bearer ${this.#tokenOf(user)}` }),
        ...headers,
      },
      // Bytes, because a text would get a content type.
      ...(body !== undefined && {
        body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
      }),
      signal: stop.signal,
    })
    const lines =
      events === undefined || response.status !== 200
        ? [await response.text()]
        : await linesOf(response, events).finally(() => stop.abort())
    const bodies = lines.map(parse)
    const warning = response.headers.get('warning')
    return { status: response.status, bodies, body: bodies[0], warning, hasWarning: warning !== null }
  }
}

/** A watch that sends fewer events than kube-apiserver's does not hang the test. */
const patienceMs = 20_000

async function linesOf(response: globalThis.Response, count: number): Promise<string[]> {
  const decoder = new TextDecoder()
  let text = ''
  try {
    for await (const part of response.body ?? []) {
      text += decoder.decode(part, { stream: true })
      if (text.split('\n').length > count) break
    }
  } catch {
    // The difference shows what is missing.
  }
  return text.trim().split('\n').slice(0, count)
}

function parse(text: string): unknown {
  if (text === '') return undefined
  try {
    const value: unknown = JSON.parse(text)
    return value
  } catch {
    return text
  }
}
