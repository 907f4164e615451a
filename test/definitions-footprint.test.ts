import { expect, it, onTestFinished } from 'vitest'
import { Api, objectOf } from './support/api.ts'
import { define, definitionOf, objectsOf, pathOf } from './support/definitions.ts'
import { Inspected } from './support/inspector.ts'
import { startServer } from './support/server.ts'
import { Watch } from './support/watch.ts'

/** A schema of a common size: what a server must forget. */
const spec = {
  type: 'object',
  properties: Object.fromEntries(
    Array.from({ length: 40 }, (_, n) => [
      `field${n}`,
      {
        type: 'object',
        description: `Field ${n}.`,
        properties: { a: { type: 'string', maxLength: 40, pattern: '^x' } },
      },
    ]),
  ),
  'x-kubernetes-validations': [{ rule: '!has(self.field1) || has(self.field2)' }],
}

it('the memory of a server is the same after hundreds of definitions that have come and gone, and its metrics name none of them', async () => {
  const inspected = await Inspected.reserve()
  const server = await startServer({ env: { NODE_OPTIONS: inspected.nodeOptions.join(' ') } })
  onTestFinished(async () => void (await server.stop()))
  const api = new Api(server.url)
  const comeAndGo = async (round: number, count: number) => {
    for (let n = 0; n < count; n++) {
      const definition = definitionOf({
        plural: `passing${round}x${n}s`,
        group: `g${n % 10}.passing.example.com`,
        indexes: [{ path: '.spec.field3.a', unique: true }],
        versions: {
          v1: { spec, selectable: ['.spec.field1.a'] },
          v2: { spec: { ...spec, description: 'Newer.' } },
        },
      })
      await define(api, definition)
      const objects = objectsOf(api, definition)
      const watch = await Watch.open(server.url, objects.path)
      await watch.synced()
      await objects.create('a', { field3: { a: 'x1' } })
      await objects.list({ fieldSelector: 'spec.field1.a=x' })
      objectOf(await api.mergePatch(pathOf(definition), { spec: { names: { shortNames: [`s${n}`] } } }))
      await api.get(`/openapi/v3/apis/g${n % 10}.passing.example.com/v1`)
      await api.get('/openapi/v2')
      objectOf(await api.delete(pathOf(definition)))
      await watch.closed
    }
  }
  // What the first ones load stays.
  await comeAndGo(0, 50)
  const before = await inspected.heapBytes()
  await comeAndGo(1, 100)
  // Each would take about a megabyte if it stayed.
  expect(((await inspected.heapBytes()) - before) / 100).toBeLessThan(50_000)
  const { text } = await api.get('/metrics')
  expect(text.split('\n').filter(line => line.includes('passing'))).toEqual([])
})
