import type { Attack } from '../attack.ts'
import { call } from '../call.ts'
import { neighbourhood } from '../witness.ts'

/** Attacks of a writer with one request body each. The server must refuse it soon, with a short response. */

const { collection } = neighbourhood

interface Body {
  readonly name: string
  readonly method?: 'POST' | 'PATCH'
  readonly type?: string
  readonly text: () => string
  /** Accepted statuses. Never 500. */
  readonly statuses: readonly number[]
}

/** Maximum bytes of a response: 100 violations with their echoed texts. */
const responseBytes = 128 * 1024
/** Maximum milliseconds for one such request. */
const requestMs = 1_000

const json = (metadata: string, spec = '{}') =>
  `{"apiVersion":"items.example.com/v1","kind":"Item","metadata":{"name":"body"${metadata}},"spec":${spec}}`
const yaml = (spec: string) =>
  `apiVersion: items.example.com/v1\nkind: Item\nmetadata:\n  name: body\nspec:\n${spec}`
const join = (count: number, make: (n: number) => string) =>
  Array.from({ length: count }, (_, n) => make(n)).join(',')
const patchTo = (operations: string) => `[${operations}]`

const bodies: readonly Body[] = [
  {
    name: '2.7 MB of empty owner references',
    text: () => json(`,"ownerReferences":[${join(900_000, () => '{}')}]`),
    statuses: [413],
  },
  {
    name: '44,000 empty owner references',
    text: () => json(`,"ownerReferences":[${join(44_000, () => '{}')}]`),
    statuses: [422],
  },
  {
    name: '44,000 bad labels',
    text: () => json(`,"labels":{${join(44_000, n => `"!${n}":""`)}}`),
    statuses: [422],
  },
  {
    name: '29,000 labels',
    text: () => json(`,"labels":{${join(29_000, n => `"l${n}":""`)}}`),
    statuses: [422],
  },
  {
    name: '90,000 bad finalizers',
    text: () => json(`,"finalizers":[${join(90_000, () => '""')}]`),
    statuses: [422],
  },
  {
    name: '44,000 violations of the schema',
    text: () => json('', `{"parts":[${join(44_000, () => '{}')}]}`),
    statuses: [422],
  },
  {
    name: '44,000 unknown fields',
    text: () => json('', `{"title":"",${join(44_000, n => `"u${n}":1`)}}`),
    statuses: [422],
  },
  {
    name: 'a name of 2 MB',
    text: () => json('').replace('"body"', `"${'N'.repeat(2_000_000)}"`),
    statuses: [422],
  },
  {
    name: 'arrays 100,000 deep',
    text: () => json('', `{"deep":{"x":${'['.repeat(100_000)}${']'.repeat(100_000)}}}`),
    statuses: [400, 413, 422],
  },
  {
    name: 'objects 100,000 deep',
    text: () => json('', `{"deep":${'{"x":'.repeat(100_000)}1${'}'.repeat(100_000)}}`),
    statuses: [400, 413, 422],
  },
  {
    name: 'YAML 100,000 deep',
    type: 'application/yaml',
    text: () => yaml(`  deep: ${'['.repeat(100_000)}${']'.repeat(100_000)}\n`),
    statuses: [400, 413, 422],
  },
  {
    name: 'a number of 2,000,000 digits',
    text: () => json('', `{"big":${'9'.repeat(2_000_000)}}`),
    statuses: [400],
  },
  { name: 'a number past all doubles', text: () => json('', '{"ratio":1e999999}'), statuses: [400] },
  {
    name: '44,000 duplicate keys',
    text: () => json('', `{"title":"",${join(44_000, () => '"rank":"1"')}}`),
    statuses: [422],
  },
  {
    name: 'a merge patch 100,000 deep',
    method: 'PATCH',
    type: 'application/merge-patch+json',
    text: () => `{"spec":{"deep":${'{"x":'.repeat(100_000)}1${'}'.repeat(100_000)}}}`,
    statuses: [400, 413, 422],
  },
  {
    name: 'a JSON patch of 100,000 tests',
    method: 'PATCH',
    type: 'application/json-patch+json',
    text: () => patchTo(join(100_000, () => '{"op":"test","path":"/x","value":1}')),
    statuses: [400, 413, 422],
  },
  {
    name: 'a JSON patch of 60,000 insertions at the front',
    method: 'PATCH',
    type: 'application/json-patch+json',
    text: () =>
      patchTo(
        `{"op":"add","path":"/spec/parts","value":[]},${join(60_000, () => '{"op":"add","path":"/spec/parts/0","value":{}}')}`,
      ),
    statuses: [400, 413, 422],
  },
  {
    name: 'a JSON patch that doubles its object 40 times',
    method: 'PATCH',
    type: 'application/json-patch+json',
    text: () =>
      patchTo(
        `{"op":"add","path":"/spec/deep","value":{"a":{"x":"${'x'.repeat(100)}"}}},${join(40, () => '{"op":"copy","from":"/spec/deep","path":"/spec/deep/a"},{"op":"copy","from":"/spec/deep","path":"/spec/deep/b"}')},{"op":"add","path":"/spec/title","value":""}`,
      ),
    statuses: [400, 413, 422],
  },
  {
    name: 'a JSON patch with a pointer of 2 MB',
    method: 'PATCH',
    type: 'application/json-patch+json',
    text: () => patchTo(`{"op":"add","path":"${'/a'.repeat(1_000_000)}","value":1}`),
    statuses: [400, 413, 422],
  },
  {
    name: '3 MB of YAML in flow style',
    type: 'application/yaml',
    text: () => yaml(`  title: ""\n  parts: [${join(700_000, () => '{}')}]\n`),
    statuses: [400, 413, 422],
  },
  {
    name: '3 MB of YAML in block style',
    type: 'application/yaml',
    text: () => yaml(`  title: ""\n  tags:\n${'  - a\n'.repeat(480_000)}`),
    statuses: [400, 413, 422],
  },
  {
    name: 'YAML whose aliases multiply',
    type: 'application/yaml',
    text: () => {
      const levels = Array.from(
        { length: 30 },
        (_, n) =>
          `  a${n}: &a${n} [${
            n === 0
              ? '"x"'
              : Array(10)
                  .fill(`*a${n - 1}`)
                  .join(',')
          }]\n`,
      )
      return yaml(levels.join(''))
    },
    statuses: [400, 413, 422],
  },
  {
    name: 'YAML with 100,000 anchors',
    type: 'application/yaml',
    text: () => yaml(`  title: ""\n  tags: [${join(100_000, n => `&a${n} x`)}]\n`),
    statuses: [400, 413, 422],
  },
  {
    name: 'a body past 3 MiB',
    text: () => json('', `{"op":"${'x'.repeat(3 * 1024 * 1024)}"}`),
    statuses: [413],
  },
]

export const bodyAttacks: readonly Attack[] = bodies.map(
  ({ name, method = 'POST', type = 'application/json', text, statuses }) => ({
    name,
    attacker: 'writer',
    async run(scene) {
      const body = Buffer.from(text())
      const path = method === 'POST' ? collection : `${collection}/${neighbourhood.name}`
      const request = { method, type, path, body, as: 'writer' as const, signal: scene.signal }
      const began = performance.now()
      const { status, bytes, text: response } = await call(scene.target, request)
      scene.checkMs('the request', performance.now() - began, requestMs)
      const isRight = statuses.includes(status) || status === 429
      scene.check(isRight, `the response was ${status} ${response.slice(0, 150)}`)
      scene.check(bytes <= responseBytes, `the response has ${bytes} bytes`)
      if (status === 201)
        await call(scene.target, { method: 'DELETE', path: `${collection}/body`, as: 'writer' })
    },
  }),
)
