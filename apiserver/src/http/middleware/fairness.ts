import type { IncomingMessage } from 'node:http'
import type { RequestQueues } from '../../security/index.ts'
import { classOf, partyOf, RequestSeat } from '../request-seat.ts'
import type { Context, Middleware } from '../request-state.ts'

/** Lets requests wait for their turn, before their bodies are read. */
export function fairness(queues: RequestQueues): Middleware {
  return (ctx, next) => {
    const { info, identity } = ctx.state
    const { socket } = ctx.req
    const party = partyOf(classOf(info), identity, socket)
    // Most clients that have closed their half are gone, so they take no turn from others.
    const hasLeft = () => socket.destroyed || socket.readableEnded
    // The deletion of a collection waits again before each object.
    if (hasBody(ctx.req) || info.verb === 'deletecollection')
      return seated(ctx, new RequestSeat(queues, party, hasLeft), next)
    return queues.passes(party) ? next() : queues.wait(party, hasLeft).then(next)
  }
}

async function seated(ctx: Context, seat: RequestSeat, next: () => Promise<unknown>): Promise<void> {
  await seat.enter()
  try {
    ctx.state.seat = seat
    await next()
  } finally {
    seat.leave()
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return (headers['content-length'] ?? '0') !== '0' || headers['transfer-encoding'] !== undefined
}
