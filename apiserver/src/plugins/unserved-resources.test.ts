import { expect, it } from 'vitest'
import { unservedResources } from './unserved-resources.ts'

const kinds = [
  { group: '', plural: 'secrets' },
  { group: '', plural: 'configmaps' },
  { group: 'shop.example.com', plural: 'orders' },
]
const of = (apiGroups: string[], resources: string[], verbs = ['get']) =>
  unservedResources([{ apiGroups, resources, verbs }], kinds, new Set(['console.example.com'])).map(
    ({ message }) => message,
  )

it('names a resource that no kind has, with the nearest plural or all of them', () => {
  expect(of([''], ['secret', 'configmaps'])).toEqual([
    'the permission for secret of core has no effect, because no kind has this plural; did you mean secrets?',
  ])
  expect(of(['shop.example.com'], ['order/status'])).toEqual([
    'the permission for order/status of shop.example.com has no effect, because no kind has this plural; did you mean orders?',
  ])
  expect(of([''], ['pods'])).toEqual([
    'the permission for pods of core has no effect, because no kind has this plural; served are secrets, configmaps',
  ])
})

it('is silent about what exists in one of the groups, or may exist', () => {
  expect(of(['', 'shop.example.com'], ['secrets', 'orders', 'orders/ship', '*', '*/status'])).toEqual([])
  expect(of(['*'], ['secret'])).toEqual([])
  // Nothing is known of a group without a kind, and routes have resources of their own.
  expect(of(['later.example.com'], ['things'])).toEqual([])
  expect(of(['', 'later.example.com'], ['things'])).toEqual([])
  expect(of(['console.example.com'], ['checks'])).toEqual([])
  expect(of([''], ['users', 'groups'], ['impersonate'])).toEqual([])
})
