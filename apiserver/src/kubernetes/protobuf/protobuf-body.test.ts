import { readFileSync } from 'node:fs'
import { isApiError, isRecord } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { encodeBody, type Field, magic, encodeMessage as message } from '../../../../test/support/protobuf.ts'
import { builtInKinds } from '../kinds/index.ts'
import { structOf } from '../types/built-in-types.ts'
import { goKinds, goStructs } from '../types/go-structs.ts'
import { goLeaves } from '../types/go-type.ts'
import { decodeProtobuf } from './protobuf-body.ts'

/** What Kubernetes' client for Go sends, in both encodings. See `test/fixtures/kubernetes-types/README.md`. */
interface Recorded {
  readonly name: string
  readonly protobuf: string
  readonly json: unknown
}

const file = new URL('../../../../test/fixtures/kubernetes-types/bodies.jsonl', import.meta.url)
const [, ...lines] = readFileSync(file, 'utf8').trim().split('\n')
const recorded: Recorded[] = lines.map(line => JSON.parse(line))
const bodies = recorded.map(({ protobuf: text }) => Buffer.from(text, 'base64'))

const configMap = { apiVersion: 'v1', kind: 'ConfigMap' }

const bodyOf = (raw: Uint8Array, kind = configMap, ...more: readonly Field[]) =>
  encodeBody(kind, raw, ...more)

function refusalOf(body: Buffer): string {
  try {
    decodeProtobuf(body, configMap)
  } catch (error) {
    if (isApiError(error)) return `${error.code} ${error.message}`
    throw error
  }
  return 'accepted'
}

describe('a protobuf body', () => {
  it.each(recorded.map((each, at) => [each.name, each, bodies[at]] as const))(
    'is the JSON that the client for Go sends: %s',
    (_name, { json }, body = Buffer.alloc(0)) => {
      expect(decodeProtobuf(body, configMap)).toEqual(json)
    },
  )

  it('without a kind is of the kind that the path takes', () => {
    const body = bodyOf(message(), { apiVersion: '', kind: '' })
    expect(decodeProtobuf(body, configMap)).toEqual({ ...configMap, metadata: {} })
  })

  it('joins a message that is given in parts, and takes the last of several texts', () => {
    const [first, second] = [message([1, 'a'], [2, 'x-']), message([1, 'b'])]
    expect(decodeProtobuf(bodyOf(message([1, first], [1, second])), configMap)).toMatchObject({
      metadata: { name: 'b', generateName: 'x-' },
    })
  })

  it('skips unknown fields', () => {
    const raw = message([1, message([1, 'a'])], [99, 'x'], [98, 5])
    expect(decodeProtobuf(bodyOf(raw), configMap)).toEqual({ ...configMap, metadata: { name: 'a' } })
  })

  const meta = (...fields: readonly Field[]) => bodyOf(message([1, message(...fields)]))

  it.each([
    ['nothing', Buffer.alloc(0), '400 the body is empty'],
    ['JSON', Buffer.from('{"kind":"ConfigMap"}'), 'does not begin with the bytes 6b 38 73 00'],
    [
      'a kind that is not known',
      bodyOf(message(), { apiVersion: 'v1', kind: 'Pod' }),
      'no kind "Pod" is registered for version "v1"',
    ],
    [
      'a version that is not known',
      bodyOf(message(), { ...configMap, apiVersion: 'v2' }),
      'no kind "ConfigMap" is registered for version "v2"',
    ],
    [
      'a content encoding',
      bodyOf(message(), configMap, [3, 'gzip']),
      'the content encoding "gzip" is not supported',
    ],
    [
      'another content type',
      bodyOf(message(), configMap, [4, 'application/json']),
      'the content type "application/json" is not supported',
    ],
    ['a number in place of a text', meta([1, 5]), 'meta.v1.ObjectMeta.name has the wrong wire type'],
    ['a text in place of a number', meta([7, 'x']), 'meta.v1.ObjectMeta.generation has the wrong wire type'],
    ['a number that a double cannot keep', meta([7, 2 ** 60]), 'cannot be kept exactly'],
    [
      'a text that is not UTF-8',
      meta([1, Buffer.from([0xff])]),
      'meta.v1.ObjectMeta.name is not valid UTF-8',
    ],
    ['a time past the year 9999', meta([9, message([1, 1e15])]), 'outside the years 1 to 9999'],
    [
      'the key __proto__',
      meta([11, message([1, '__proto__'], [2, 'x'])]),
      'the key __proto__ is not allowed',
    ],
    ['managed fields that are not JSON', meta([17, message([7, message([1, '{'])])]), 'not valid JSON'],
    ['the field number 0', bodyOf(Buffer.from([0])), 'the field number is 0'],
    [
      'a number that is cut off',
      bodyOf(message([1, Buffer.from([0x38, 0xff, 0xff, 0xff])])),
      'a field is cut off',
    ],
  ] as const)('is refused with %s', (_what, body, problem) => {
    expect(refusalOf(body)).toMatch(/^400 /)
    expect(refusalOf(body)).toContain(problem)
  })

  it('is refused when it is cut off, wherever that is', () => {
    const whole = bodyOf(message([1, message([1, 'a'], [11, message([1, 'k'], [2, 'v'])])]))
    for (let length = 0; length < whole.length; length++) {
      // A body without its message is that of an empty object.
      const isWholeField = [magic.length, magic.length + 17].includes(length)
      if (!isWholeField)
        expect([length, refusalOf(whole.subarray(0, length))]).toEqual([
          length,
          expect.stringMatching(/^400 /),
        ])
    }
  })

  it('is refused with more fields than a JSON body may have', () => {
    const owner = message([13, message()])
    const owners = (count: number) => bodyOf(message([1, Buffer.concat(Array(count).fill(owner))]))
    expect(refusalOf(owners(7000))).toBe('accepted')
    // Each makes fields for the JSON.
    expect(refusalOf(owners(20_000))).toMatch(/^413 the body has more than 45000 fields/)
    expect(refusalOf(owners(400_000))).toMatch(/^413 the body has more than 45000 fields/)
    const skipped = Buffer.concat(Array(400_000).fill(message([99, 0])))
    expect(refusalOf(bodyOf(skipped))).toMatch(/^413 /)
  })

  it('never fails in another way: 20,000 mutated bodies', () => {
    let seed = 1
    const random = (below: number) => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
      return Math.floor((seed / 2 ** 32) * below)
    }
    const codes = new Map<string, number>()
    for (let turn = 0; turn < 20_000; turn++) {
      let body = Buffer.from(bodies[random(bodies.length)] ?? '')
      for (let change = 0; change <= random(4); change++) {
        const at = magic.length + random(body.length - magic.length)
        if (random(8) === 0) body = body.subarray(0, at + 1)
        else body[at] = random(256)
      }
      const code = refusalOf(body).slice(0, 3)
      codes.set(code, (codes.get(code) ?? 0) + 1)
    }
    expect([...codes.keys()].sort()).toEqual(['400', 'acc'])
  })
})

describe('the Go structs', () => {
  it('are those of every built-in kind', () => {
    for (const { model } of builtInKinds().all) expect([model.kind, structOf(model)]).not.toContain(undefined)
  })

  it('consist of known types, and none contains itself', () => {
    const known = new Set<string>(goLeaves)
    const walk = (struct: string, within: readonly string[]): void => {
      expect(within).not.toContain(struct)
      expect(isRecord(goStructs) && struct in goStructs).toBe(true)
      for (const { type } of goStructs[struct] ?? []) if (!known.has(type)) walk(type, [...within, struct])
    }
    for (const struct of Object.values(goKinds)) walk(struct, [])
  })
})
