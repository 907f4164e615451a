import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Exchange } from './fixtures/kube-apiserver/record/exchange.js'
import { differing } from './soak/e2e-specs.ts'
import { differences } from './support/differences.ts'
import { type Outcome, Outcomes } from './support/outcomes.ts'
import { Replay, readRecording } from './support/recordings.ts'
import { Users } from './support/users.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

type Name = 'admin' | 'bob' | 'eve'

const listed = new Map(differences.flatMap(({ responses }) => Object.entries(responses)))
const compared = new Set<string>()
let users: Users<Name>
let world: SharedWorld

beforeAll(async () => {
  users = await Users.make({ admin: ['setpoint:admins'], bob: ['team'], eve: ['others'] })
  // The recorded kube-apiserver has no controllers either.
  world = await startSharedWorld('embedded', ['recorded-plugin'], {
    args: [...users.args, '--role', 'apiserver'],
  })
})
afterAll(async () => {
  await world?.end()
  await users?.remove()
})

describe.each(['apply', 'writes', 'reads', 'kinds', 'access'])('responses of kube-apiserver: %s', topic => {
  for (const { name, exchanges } of readRecording(topic)) {
    it(name, async () => {
      const replay = new Replay(world.server.url, user => (isName(user) ? users.tokenOf(user) : 'unknown'))
      const kubernetes = new Outcomes('kubernetes')
      const setpoint = new Outcomes('setpoint')
      for (const exchange of exchanges) {
        const key = `${name}: ${exchange.what}`
        compared.add(key)
        const recorded = kubernetes.of(exchange.request, exchange.response)
        const outcome = setpoint.of(exchange.request, await replay.send(exchange.request))
        const status = listed.get(key)
        if (status === undefined) expect.soft(outcome, key).toEqual(expectedOf(exchange, recorded, outcome))
        else {
          expect.soft(outcome.status, key).toBe(status)
          expect.soft(outcome, `${key} no longer differs`).not.toEqual(recorded)
        }
      }
    })
  }
})

describe('differences from kube-apiserver', () => {
  it('are of recorded requests', () => {
    expect([...listed.keys()].filter(key => !compared.has(key))).toEqual([])
  })

  it.each([...differences, ...differing])('are documented in $page: $says', ({ says, page }) => {
    const text = readFileSync(new URL(`../docs/reference/${page}`, import.meta.url), 'utf8')
    expect(text.replace(/\s+/g, ' ')).toContain(says)
  })
})

/** Returns what Setpoint must respond: the same, except where kube-apiserver cannot decode or handle a malformed request. */
function expectedOf({ response }: Exchange, recorded: Outcome, outcome: Outcome): unknown {
  const { status, body } = response
  const isRefused = outcome.status >= 400 && outcome.status < 500
  if (status === 500 && isRefused) return outcome
  if (status === 400 && outcome.status === 422 && JSON.stringify(body).includes('cannot be handled as a'))
    return outcome
  // Its router sends a text.
  if (typeof body === 'string' && outcome.status === status) return outcome
  return recorded
}

function isName(user: string): user is Name {
  return user === 'admin' || user === 'bob' || user === 'eve'
}
