import { expect, it } from 'vitest'
import { forbidden } from './forbidden.ts'

const long = 'x'.repeat(100_000)

it('a refusal repeats at most 100 characters of a path', () => {
  const { message } = forbidden({ name: 'ann', groups: [] }, 'get', `/apis/${long}`)
  expect(message).toContain('User "ann" cannot get path "/apis/xxx')
  expect(message).not.toContain('x'.repeat(100))
})

it('a refusal repeats at most 100 characters of what cannot be a name', () => {
  const target = { group: long, plural: long, namespace: long, name: long, subresource: long }
  const error = forbidden({ name: long, groups: [] }, 'get', target)
  expect(JSON.stringify(error.toStatus())).not.toContain('x'.repeat(101))
})

it('a refusal repeats names whole', () => {
  const name = 'n'.repeat(253)
  const target = { group: 'g.example.com', plural: 'things', namespace: name, name, subresource: undefined }
  const { message, details } = forbidden({ name, groups: [] }, 'get', target)
  expect(message).toBe(
    `things.g.example.com "${name}" is forbidden: User "${name}" cannot get resource "things" in API group "g.example.com" in the namespace "${name}"`,
  )
  expect(details).toEqual({ group: 'g.example.com', kind: 'things', name })
})
