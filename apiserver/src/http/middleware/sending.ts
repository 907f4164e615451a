import { loadProtobufResponses, protobufType } from '../../kubernetes/index.ts'
import type { ApiResponse } from '../api-request.ts'
import { acceptsOnlyProtobuf } from '../object-negotiation.ts'
import type { Middleware } from '../request-state.ts'
import { send } from '../sender.ts'

/** Sends the response that the middleware after it has put into the state. */
export function sending(): Middleware {
  return async (ctx, next) => {
    await next()
    const { response } = ctx.state
    if (response === undefined) return
    const isProtobuf = acceptsOnlyProtobuf(ctx.req.headers.accept)
    await send(ctx, isProtobuf ? await inProtobuf(response) : response)
  }
}

/**
 * Encodes an object of a built-in kind, or a Status. Any other response stays as it is, and so does what the audit log
 * records.
 */
async function inProtobuf(response: ApiResponse): Promise<ApiResponse> {
  const { headers, body } = response
  if (headers['content-type'] !== 'application/json' || !Buffer.isBuffer(body)) return response
  const { encodeProtobuf } = await loadProtobufResponses()
  const encoded = encodeProtobuf(body)
  if (encoded === undefined) return response
  return { ...response, headers: { ...headers, 'content-type': protobufType }, body: encoded }
}
