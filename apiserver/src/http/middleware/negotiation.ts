import { loadProtobufResponses, protobufType } from '../../kubernetes/index.ts'
import { HandshakeResponse } from '../handshake-response.ts'
import { negotiateObject, notAcceptable } from '../object-negotiation.ts'
import type { Context, Middleware } from '../request-state.ts'

const frames = ['application/json'] as const
const objects = ['application/json', protobufType] as const
const streams = ['application/json', 'text/event-stream', protobufType] as const

/** Checks that the client accepts what is served for objects, and chooses its form. */
export function negotiation(): Middleware {
  return (ctx, next) => {
    const { state, req, res } = ctx
    const { info } = state
    if (info.served === undefined) return next()
    const offered = res instanceof HandshakeResponse ? frames : info.verb === 'watch' ? streams : objects
    const { type, view } = negotiateObject(req.headers.accept, info, offered)
    if (type === protobufType) return chooseProtobuf(ctx).then(next)
    state.streamForm = type === 'text/event-stream' ? 'events' : 'lines'
    state.view = view
    return next()
  }
}

/** Single objects are encoded when they are sent. @throws ApiError 406 for a kind that has no protobuf */
async function chooseProtobuf({ state, req }: Context): Promise<void> {
  const { info } = state
  const { protobufLists } = await loadProtobufResponses()
  const lists = info.served && protobufLists(info.served.versionAt(info.path))
  if (lists === undefined) throw notAcceptable(req.headers.accept)
  const isList = info.verb === 'list' || info.verb === 'deletecollection'
  state.streamForm = 'protobuf'
  state.view = isList ? lists : undefined
}
