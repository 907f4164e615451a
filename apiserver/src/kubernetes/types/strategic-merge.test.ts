import { readFileSync } from 'node:fs'
import { isApiError, isRecord } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { applyStrategicMerge } from '../../registry/strategic-merge/index.ts'
import { structOf } from './built-in-types.ts'
import { MergeTypes } from './merge-type.ts'

/** What Kubernetes made of the same patches. See `test/fixtures/kubernetes-types/README.md`. */
interface Recorded {
  readonly kind: string
  readonly original: unknown
  readonly patch: unknown
  readonly result?: unknown
  readonly error?: string
  /** The object that the patch was made for, if Kubernetes made the patch. */
  readonly modified?: unknown
}

const file = new URL('../../../../test/fixtures/kubernetes-types/patches.jsonl', import.meta.url)
const [header = '', ...lines] = readFileSync(file, 'utf8').trim().split('\n')
const types = new MergeTypes(JSON.parse(header).structs)
const recorded: Recorded[] = lines.map(line => JSON.parse(line))
const asked = recorded.filter(({ modified }) => modified === undefined)
const made = recorded.filter(({ modified }) => modified !== undefined)

/** What Kubernetes keeps of a merged object when it decodes it: no nulls and no directives. */
function kept(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(kept)
  if (!isRecord(value)) return value
  const entries = Object.entries(value).filter(([key, item]) => !key.startsWith('$') && item !== null)
  return Object.fromEntries(entries.map(([key, item]) => [key, kept(item)]))
}

function outcomeOf({ kind, original, patch }: Recorded): { result?: unknown; code?: number } {
  try {
    return { result: applyStrategicMerge(original, patch, types.of(kind)) }
  } catch (error) {
    if (!isApiError(error)) throw error
    return { code: error.code }
  }
}

describe('a strategic merge patch', () => {
  it.each(asked.map(each => [each.kind, JSON.stringify(each.patch), each] as const))(
    'has the outcome that Kubernetes recorded: %s %s',
    (_kind, _patch, each) => {
      const { result, code } = outcomeOf(each)
      // Kubernetes gives most of these errors no code of their own.
      if (each.error !== undefined) expect([400, 422]).toContain(code)
      else expect({ result, code }).toEqual({ result: kept(each.result), code: undefined })
    },
  )

  it('made by Kubernetes of two objects turns the first into the second', () => {
    expect(made.length).toBeGreaterThan(90)
    for (const each of made) {
      const { original, patch, modified } = each
      const what = JSON.stringify({ original, patch })
      expect({ what, ...outcomeOf(each) }).toEqual({ what, result: modified })
    }
  })

  it('changes neither the object nor the patch', () => {
    for (const each of recorded) {
      const before = JSON.stringify(each)
      outcomeOf(each)
      expect(JSON.stringify(each)).toBe(before)
    }
  })

  it('shares nothing with the patch that a second one could change', () => {
    const type = types.of('core.v1.Namespace')
    const patch = { metadata: { labels: { a: '1' } } }
    const first = applyStrategicMerge({}, patch, type)
    applyStrategicMerge(first, { metadata: { labels: { b: '1' } } }, type)
    expect([first, patch]).toEqual([patch, { metadata: { labels: { a: '1' } } }])
  })

  it('merges fields that the type does not have as objects, and replaces them as lists', () => {
    const original = { other: { a: 1, b: { c: 1 } }, list: [1] }
    const patch = { other: { b: { d: 1 } }, list: [2] }
    expect(applyStrategicMerge(original, patch, types.of('core.v1.Namespace'))).toEqual({
      other: { a: 1, b: { c: 1, d: 1 } },
      list: [2],
    })
  })

  it('is refused with a list of lists as Kubernetes does, and with a patch that is no object', () => {
    const type = types.of('core.v1.Namespace')
    const lists = { metadata: { finalizers: [['a']] } }
    expect(() => applyStrategicMerge({ metadata: { finalizers: [] } }, lists, type)).toThrow(
      expect.objectContaining({ code: 422, message: 'lists of lists are not supported' }),
    )
    expect(() => applyStrategicMerge({}, [], type)).toThrow(expect.objectContaining({ code: 400 }))
  })

  it('does bounded work: lists of 5,000 items, and an item that is named again and again', () => {
    const type = types.of('core.v1.Pod')
    const names = Array.from({ length: 5000 }, (_, at) => `f${at}`)
    const original = { metadata: { finalizers: names } }
    const patch = { metadata: { '$setElementOrder/finalizers': [...names].reverse(), finalizers: ['f1'] } }
    expect(applyStrategicMerge(original, patch, type)).toEqual({
      metadata: { finalizers: [...names].reverse() },
    })
    const ports = Array.from({ length: 10_000 }, (_, at) => ({ containerPort: at }))
    const item = { name: 'a', ports: [{ containerPort: 1 }] }
    const again = { spec: { containers: Array(10_000).fill(item) } }
    expect(() => applyStrategicMerge({ spec: { containers: [{ name: 'a', ports }] } }, again, type)).toThrow(
      expect.objectContaining({ code: 413 }),
    )
  })
})

it('the built-in kinds have the types of the recording', () => {
  expect(structOf({ apiVersion: 'v1', kind: 'Namespace' })).toBe('core.v1.Namespace')
  expect(structOf({ apiVersion: 'v1', kind: 'toString' })).toBeUndefined()
})
