import { type KeyParts, objectKey, type Revision, toRevision } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ModelLog, namespaced } from '../../../test/support/model-log.ts'
import { contentOf } from '../../../test/support/snapshot-content.ts'
import type { Work } from '../scheduling/index.ts'
import type { ModelSnapshot } from './model-snapshot.ts'
import { SnapshotCache } from './snapshot-cache.ts'

const text = fc.constantFrom('', 'a', 'b', '\u{ffff}', '\u{1f600}')
const content = (name: fc.Arbitrary<string>) =>
  fc.record({
    name,
    n: fc.option(text, { nil: undefined }),
    tags: fc.uniqueArray(text, { maxLength: 3 }),
    labels: fc.dictionary(fc.constantFrom('app', 'tier', '__proto__'), text),
  })
const name = fc.oneof(
  fc.nat(9).map(n => `n${n}`),
  text.map(end => `x${end}`),
)

const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ put: content(name), gap: fc.nat(2) }) },
  { weight: 2, arbitrary: fc.record({ remove: name, gap: fc.nat(2) }) },
  { weight: 2, arbitrary: fc.record({ rewindTo: fc.nat(1000) }) },
  { weight: 2, arbitrary: fc.record({ undo: fc.nat(4) }) },
  fc.constant({ list: true }),
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

/** Rewinds to many states while writes go on, and compares each with the state as it was. */
function run(steps: readonly Step[], log: ModelLog, namespaceOf?: (name: string) => string): void {
  const snapshots = new SnapshotCache(log, () => 0)
  const made: { readonly at: Revision; readonly snapshot: ModelSnapshot }[] = []
  let underWay: { readonly at: Revision; readonly work: Work<ModelSnapshot> }[] = []
  const advance = (changes: number) => {
    underWay = underWay.filter(({ at, work }) => {
      for (let n = 0; n < changes; n++) {
        const { done, value } = work.next()
        if (!done) continue
        made.push({ at, snapshot: value })
        return false
      }
      return true
    })
  }
  const partsOf = (name: string) => ({ name, ...(namespaceOf && { namespace: namespaceOf(name) }) })
  for (const step of steps) {
    if ('put' in step) {
      const { put, gap } = step
      const parts = partsOf(put.name)
      log.write(keyOf(parts), { ...put, ...parts }, toRevision(log.revision + 1 + gap))
    } else if ('remove' in step) {
      log.write(keyOf(partsOf(step.remove)), undefined, toRevision(log.revision + 1 + step.gap))
    } else if ('rewindTo' in step) {
      const at = toRevision(step.rewindTo % (log.revision + 1))
      const kept = snapshots.at(at)
      if (kept === undefined) underWay.push({ at, work: snapshots.rewind(at) })
      else made.push({ at, snapshot: kept })
    } else if ('undo' in step) advance(step.undo)
    else snapshots.present()
  }
  advance(Infinity)
  for (const { at, snapshot } of made) expect(contentOf(snapshot)).toEqual(log.contentAt(at))
  expect(contentOf(log.store.snapshot())).toEqual(log.contentAt(log.revision))
}

function keyOf({ name, namespace }: KeyParts): string {
  return namespace === undefined ? name : objectKey({ name, namespace })
}

describe('a state made by undoing changes', () => {
  test('equals the state as it was, whatever is written meanwhile and later', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: 'max' }), steps => run(steps, new ModelLog())),
      { numRuns: 100 },
    )
  })

  test('equals the state as it was in namespaces', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: 'max' }), steps =>
        run(steps, new ModelLog(namespaced), name => (name.length % 2 === 0 ? 'even' : 'odd')),
      ),
      { numRuns: 60 },
    )
  })
})
