import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { isApiError } from '@setpoint/controller-runtime/api'
import Koa from 'koa'
import { afterAll, describe, expect, it } from 'vitest'
import { openRooms, testModel } from '../../../../test/support/rooms.ts'
import type { Middleware } from '../request-state.ts'
import { negotiation } from './negotiation.ts'

const { group, version, plural } = testModel

const rooms = await openRooms()
afterAll(() => rooms[Symbol.asyncDispose]())

/** Returns the form of the response to a request with this Accept header, or the code of its error. */
async function negotiate(accept: string | undefined, verb: 'get' | 'watch'): Promise<string | number> {
  const koa = new Koa()
  const outcome: (string | number)[] = []
  const given: Middleware = (ctx, next) => {
    const path = { group, version, namespace: undefined, plural, name: undefined, subresource: undefined }
    const { served } = rooms
    const query = new URLSearchParams()
    ctx.state.info = { verb, target: path, isSensitive: false, served, path, query }
    return next().catch((error: unknown) => {
      if (!isApiError(error)) throw error
      outcome.push(error.code)
    })
  }
  const taken: Middleware = async ctx => {
    outcome.push(ctx.state.streamForm)
  }
  koa.use(given).use(negotiation()).use(taken)
  const message = new IncomingMessage(new Socket())
  if (accept !== undefined) message.headers = { accept }
  await koa.callback()(message, new ServerResponse(message))
  return outcome[0] ?? 'nothing'
}

describe('an object', () => {
  it.each([
    [undefined, true],
    ['', true],
    ['*/*', true],
    ['application/json', true],
    ['APPLICATION/JSON; charset=utf-8', true],
    ['application/*', true],
    ['text/html, application/xhtml+xml, */*;q=0.8', true],
    ['application/json;as=Table;v=v1;g=meta.k8s.io, application/json', true],
    ['application/json;as=Table;v=v1;g=meta.k8s.io;q=0, */*', true],
    ['text/html;x="a,application/json"', false],
    ['application/json;as=Table;v=v1;g=meta.k8s.io', true],
    ['application/json;as=Table;v=v2;g=meta.k8s.io', false],
    ['application/json;q=0', false],
    ['application/json;q=0, */*', false],
    ['application/*;q=0, */*;q=1', false],
    ['application/json;q=0.001, */*;q=0', true],
    ['application/json;q=nonsense', false],
    ['text/html', false],
    ['application/vnd.kubernetes.protobuf', false],
    [',;,', false],
  ])('with Accept %j is served as JSON: %j', async (accept, isServed) => {
    expect(await negotiate(accept, 'get')).toBe(isServed ? 'lines' : 406)
  })
})

describe('a watch', () => {
  it.each([
    [undefined, 'lines'],
    ['*/*', 'lines'],
    ['text/event-stream', 'events'],
    ['text/event-stream, */*', 'events'],
    ['*/*;q=0.5, text/event-stream;q=0.4', 'lines'],
    ['application/json, text/event-stream', 'lines'],
    ['application/json;q=0.9, text/event-stream', 'events'],
    ['text/*', 'events'],
    ['text/html', 406],
  ])('with Accept %j is served as %j', async (accept, form) => {
    expect(await negotiate(accept, 'watch')).toBe(form)
  })
})
