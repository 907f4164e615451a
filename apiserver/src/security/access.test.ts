import { expect, it } from 'vitest'
import { type Identity, kindOfPayer, payerOf } from './access.ts'

const identityOf = (name: string): Identity => ({ user: { name, groups: [] }, credential: undefined })
const account = 'system:serviceaccount:'

it.each([
  ['a user', 'ann', 'ann', 'users'],
  ['a service account', `${account}team-a:robot`, 'system:serviceaccounts:team-a', 'service-accounts'],
  ['a controller', `${account}setpoint-system:robot`, `${account}setpoint-system:robot`, 'service-accounts'],
  ['a name that no service account has', `${account}team-a`, `${account}team-a`, 'service-accounts'],
])('%s pays for itself or with its namespace, also when it acts for others', (_who, name, payer, kind) => {
  const identity = identityOf(name)
  expect(payerOf(identity)).toBe(payer)
  const acting = { ...identityOf(`${account}team-b:invented`), impersonator: identity }
  expect(payerOf(acting)).toBe(payer)
  expect(kindOfPayer(payer)).toBe(kind)
})
