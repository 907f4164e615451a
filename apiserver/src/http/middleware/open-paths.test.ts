import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { ApiError } from '@setpoint/controller-runtime/api'
import Koa from 'koa'
import { expect, it } from 'vitest'
import { type Identity, LocalAccess, RbacAuthorizer } from '../../security/index.ts'
import type { Middleware } from '../request-state.ts'
import { openPaths } from './open-paths.ts'

const authorizer = new RbacAuthorizer({ isSensitive: () => false })
authorizer.update(() => {})

/** Returns whether the response to a probe may have details, or 'needs credentials' for another path. */
async function serve(path: string, identify: () => Identity | Promise<Identity>): Promise<unknown> {
  const koa = new Koa()
  const outcome: unknown[] = []
  const given: Middleware = (ctx, next) => {
    ctx.state.path = path
    return next()
  }
  const system: Middleware = async ctx => {
    outcome.push(ctx.state.mayReadDetails)
  }
  const access = Object.assign(new LocalAccess(), { identify })
  koa.use(given)
  koa.use(openPaths({ access, authorizer: authorizer }, system))
  koa.use(() => void outcome.push('needs credentials'))
  const message = new IncomingMessage(new Socket())
  await koa.callback()(message, new ServerResponse(message))
  return outcome[0]
}

const member = (group: string): Identity => ({
  user: { name: 'ann', groups: [group] },
  credential: undefined,
})
const refuse = (reason: 'Unauthorized' | 'ServiceUnavailable') => () => {
  throw new ApiError(reason, reason)
}

it('probes are served to everyone, with details to callers who may get the path', async () => {
  for (const path of ['/livez', '/readyz', '/healthz']) {
    expect(await serve(path, refuse('Unauthorized'))).toBe(false)
    expect(await serve(path, refuse('ServiceUnavailable'))).toBe(false)
    expect(await serve(path, () => member('visitors'))).toBe(false)
    expect(await serve(path, () => member('setpoint:viewers'))).toBe(true)
    expect(await serve(path, async () => member('setpoint:viewers'))).toBe(true)
  }
})

it('discovery needs credentials', async () => {
  for (const path of ['/api', '/apis', '/openapi/v3', '/metrics'])
    expect(await serve(path, refuse('Unauthorized'))).toBe('needs credentials')
})
