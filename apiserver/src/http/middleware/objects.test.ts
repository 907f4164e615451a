import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import Koa from 'koa'
import { afterAll, expect, it } from 'vitest'
import { openRooms, testModel } from '../../../../test/support/rooms.ts'
import type { ApiRequest } from '../api-request.ts'
import type { Middleware } from '../request-state.ts'
import { objects } from './objects.ts'

setFlagsFromString('--allow-natives-syntax')
const isFast: (object: object) => boolean = runInNewContext('object => %HasFastProperties(object)')

const { group, version, plural } = testModel
const user = { name: 'ann', groups: [] }

const rooms = await openRooms()
afterAll(() => rooms[Symbol.asyncDispose]())

/** Returns what the API is given for a read of an object. */
async function handled(): Promise<ApiRequest> {
  const requests: ApiRequest[] = []
  const api = {
    handle: async (_: unknown, request: ApiRequest) => {
      requests.push(request)
      return { status: 200, headers: {}, body: Buffer.alloc(0) }
    },
  }
  const authorizer = { authorize: () => {} }
  const given: Middleware = (ctx, next) => {
    const path = { group, version, namespace: undefined, plural, name: 'a', subresource: undefined }
    const { served } = rooms
    const query = new URLSearchParams()
    ctx.state.info = { verb: 'get', target: path, isSensitive: false, served, path, query }
    ctx.state.caller = { user, payer: 'ann', plugin: undefined }
    return next()
  }
  const koa = new Koa()
  koa.use(given).use(objects(api, authorizer))
  const message = new IncomingMessage(new Socket())
  message.method = 'GET'
  await koa.callback()(message, new ServerResponse(message))
  const [request] = requests
  if (request === undefined) throw new Error('the API was given no request')
  return request
}

it('gives the API requests whose properties V8 does not keep in dictionaries', async () => {
  await handled()
  expect(isFast(await handled())).toBe(true)
})
