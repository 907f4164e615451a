import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { UserInfo } from '@setpoint/controller-runtime'
import type { ApiError } from '@setpoint/controller-runtime/api'
import { timed } from '../registry/index.ts'
import {
  type BodyMemory,
  fairnessDefaults,
  type HeldBody,
  type Party,
  type RequestClass,
  type RequestQueues,
} from '../scheduling/index.ts'
import { type Identity, kindOfPayer, payerOf } from '../security/index.ts'
import type { RequestTimes } from './api-request.ts'
import { type BodyCount, readRequestBody } from './request-body.ts'
import type { RequestInfo } from './request-info.ts'

export function classOf({ verb, target, served }: RequestInfo): RequestClass {
  if (typeof target === 'string') return 'reads'
  const { group, plural } = target
  // The core group has no routes.
  if (served === undefined) return group === '' ? 'reads' : 'routes'
  if (verb === 'watch') return 'watches'
  if (verb === 'list') return 'lists'
  if (plural === 'leases' && group.startsWith('coordination.')) return 'leases'
  return verb === 'get' ? 'reads' : 'writes'
}

/** Returns the party of a request. */
export function partyOf(
  requestClass: RequestClass,
  identity: Identity,
  connection: Socket | undefined,
): Party {
  const payer = payerOf(identity)
  return { class: requestClass, identity: payer, kind: kindOfPayer(payer), connection }
}

/** Returns the party of a plugin in this process, or of the server's own controllers. */
export function partyOfPlugin(requestClass: RequestClass, { name }: UserInfo): Party {
  return { class: requestClass, identity: name, kind: 'plugins' }
}

/**
 * Waits for the turn of an error response to a caller without an identity; each address has its own turn. Returns the
 * error to respond with: the given one, or 429.
 */
export async function refusalInTurn(queues: RequestQueues, socket: Socket, error: unknown): Promise<unknown> {
  const identity = socket.remoteAddress ?? ''
  const kind = 'unauthenticated'
  const party: Party = { class: kind, identity, kind, connection: socket }
  try {
    if (!queues.passes(party)) await queues.wait(party, () => socket.destroyed)
    return error
  } catch (refusal) {
    return refusal
  }
}

/**
 * A request's place in the queues, and the memory of its body. A large body waits a second time before it is parsed.
 */
export class RequestSeat implements BodyCount {
  readonly #queues: RequestQueues
  readonly #party: Party
  readonly #hasLeft: () => boolean
  readonly #times: RequestTimes | undefined
  #body: HeldBody | undefined

  /**
   * @param hasLeft returns true once the caller has left
   * @param times gets what the request waits for
   */
  constructor(queues: RequestQueues, party: Party, hasLeft: () => boolean, times?: RequestTimes) {
    this.#queues = queues
    this.#party = party
    this.#hasLeft = hasLeft
    this.#times = times
  }

  /**
   * Returns undefined if the request may go on at once. Rejects with ApiError 429. May be called again for another turn
   * of the same caller.
   */
  enter(): Promise<void> | undefined {
    return this.#queues.passes(this.#party) ? undefined : this.#wait(this.#party)
  }

  /** The same before a body of this length is parsed. */
  beforeParsing(bytes: number): Promise<void> | undefined {
    const party: Party = { ...this.#party, class: 'bodies' }
    if (bytes < fairnessDefaults.largeBody || this.#queues.passes(party)) return undefined
    return this.#wait(party)
  }

  begin(refuse: (why: ApiError) => void): void {
    this.#body = this.#memory.begin(this.#party.identity, why => {
      this.#queues.countRefusedBody(this.#party)
      refuse(why)
    })
  }

  add(bytes: number): void {
    if (this.#body !== undefined) this.#memory.add(this.#body, bytes)
  }

  complete(): void {
    if (this.#body !== undefined) this.#memory.complete(this.#body)
  }

  /** Releases the memory of the body. Must be called once when the request ends. */
  leave(): void {
    if (this.#body !== undefined) this.#memory.release(this.#body)
  }

  #wait(party: Party): Promise<void> {
    return timed(this.#times, 'queueMs', this.#queues.wait(party, this.#hasLeft))
  }

  get #memory(): BodyMemory {
    return this.#party.class === 'routes' ? this.#queues.routeBodies : this.#queues.bodies
  }
}

/**
 * Reads the whole body of a request. A large one then waits for a turn of its own. Throws as `readRequestBody`, and
 * 429.
 */
export async function readBodyInTurn({
  req,
  state,
}: {
  readonly req: IncomingMessage
  readonly state: { readonly seat: RequestSeat | undefined; readonly record: RequestTimes }
}): Promise<Buffer> {
  const body = await timed(state.record, 'bodyMs', readRequestBody(req, state.seat))
  await state.seat?.beforeParsing(body.length)
  return body
}
