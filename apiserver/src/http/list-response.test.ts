import { toRevision } from '@setpoint/controller-runtime/internal'
import { expect, it } from 'vitest'
import { testModel } from '../../../test/support/rooms.ts'
import { ServedModel } from '../model/served-model.ts'
import { listBody, plainList } from './list-response.ts'

const served = new ServedModel(testModel)
const items = (count: number) => Array.from({ length: count }, (_, n) => Buffer.from(`${n}`))
const bytesOf = (bytes: Buffer) => bytes

it('the body of a list has its items in order, after the metadata and the fields of the page', async () => {
  const parts = await listBody(
    plainList(served.hub),
    toRevision(7),
    { continue: 'c' },
    { total: 3 },
    items(3),
    bytesOf,
  )
  expect(JSON.parse(Buffer.concat(parts).toString())).toMatchObject({
    metadata: { version: '7', resourceVersion: '7', continue: 'c' },
    total: 3,
    items: [0, 1, 2],
  })
})

it('the items of a built-in kind begin behind their apiVersion and kind', async () => {
  const { wirePrefix } = served.hub
  const wires = ['a', 'b'].map(name => Buffer.from(`${wirePrefix}${name}"},"data":{}}`))
  const form = plainList({ ...served.hub, wirePrefix, isBuiltIn: true })
  const listed = async (shown: Buffer[]) =>
    JSON.parse(Buffer.concat(await listBody(form, toRevision(7), {}, {}, shown, bytesOf)).toString()).items
  expect(await listed(wires)).toEqual(['a', 'b'].map(name => ({ metadata: { name }, data: {} })))
  expect(await listed([])).toEqual([])
})

it('the event loop turns while the body of a large list is put together', async () => {
  let turns = 0
  let next = setImmediate(function turn() {
    turns++
    next = setImmediate(turn)
  })
  const parts = await listBody(plainList(served.hub), toRevision(7), {}, {}, items(100_000), bytesOf)
  clearImmediate(next)
  expect(turns).toBeGreaterThanOrEqual(6)
  expect(parts).toHaveLength(200_001)
})
