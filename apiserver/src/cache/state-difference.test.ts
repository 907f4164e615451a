import { type Revision, toRevision } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compareCodePoints } from './code-point-order.ts'
import { type ObjectChange, StateDifference, type Verdict } from './state-difference.ts'

/** What one transaction did. `to` is the name of an object, as `<plural>/<name>`; kinds are `g/<plural>`. */
type Step =
  | { readonly do: 'put'; readonly to: string; readonly reserves?: string }
  | { readonly do: 'delete'; readonly to: string }
  | { readonly do: 'bookkeeping' }
  /** Somebody else's, elsewhere in the same etcd. */
  | { readonly do: 'foreign' }

const put = (to: string, reserves?: string): Step => ({ do: 'put', to, ...(reserves && { reserves }) })
const remove = (to: string): Step => ({ do: 'delete', to })
const foreign: Step = { do: 'foreign' }
const bookkeeping: Step = { do: 'bookkeeping' }

interface Row {
  readonly key: string
  readonly modRevision: Revision
  readonly createRevision: Revision
  readonly puts?: number
}

/** A store that takes a step a revision. */
class Model {
  readonly #rows = new Map<string, Row>()
  /** Reservations by the object that has them. */
  readonly #held = new Map<string, string>()
  readonly #counts: boolean
  revision = 0
  readonly history: { readonly at: number; readonly step: Step }[] = []

  /** @param counts whether it counts the puts of a key, as etcd does */
  constructor(counts = false) {
    this.#counts = counts
  }

  take(step: Step): void {
    // A deletion of what is not there is refused, and refused transactions have no revision.
    if (step.do === 'delete' && !this.has(step.to)) return
    this.revision++
    this.history.push({ at: this.revision, step })
    if (step.do === 'bookkeeping') this.#put('models/g/a')
    else if (step.do === 'delete') {
      this.#rows.delete(keyOf(step.to))
      this.#release(step.to)
    } else if (step.do === 'put') {
      this.#put(keyOf(step.to))
      if (step.reserves === undefined) return
      this.#release(step.to)
      const key = `unique/g/${step.to.split('/')[0]}/index/${step.to}-${step.reserves}`
      this.#put(key)
      this.#held.set(step.to, key)
    }
  }

  has(to: string): boolean {
    return this.#rows.has(keyOf(to))
  }

  rows(prefix = ''): Row[] {
    return [...this.#rows.values()]
      .filter(({ key }) => key.startsWith(prefix))
      .sort((a, b) => compareCodePoints(a.key, b.key))
  }

  #release(to: string): void {
    const held = this.#held.get(to)
    if (held !== undefined) this.#rows.delete(held)
    this.#held.delete(to)
  }

  #put(key: string): void {
    const now = toRevision(this.revision)
    const before = this.#rows.get(key)
    const counted = this.#counts && { puts: (before?.puts ?? 0) + 1 }
    this.#rows.set(key, {
      key,
      modRevision: now,
      createRevision: before?.createRevision ?? now,
      ...counted,
    })
  }
}

const keyOf = (to: string) => `objects/g/${to}`

/** Follows `before`, loses the log of `after`, and says what became of each kind that is followed. */
function lose(before: readonly Step[], after: readonly Step[], counts = false) {
  const store = new Model(counts)
  for (const step of before) store.take(step)
  const from = store.revision
  const known = ['a', 'b'].map(plural => {
    const prefix = `objects/g/${plural}/`
    const objects = store
      .rows(prefix)
      .map(({ key, modRevision, puts }) => ({ name: key.slice(prefix.length), revision: modRevision, puts }))
    // A quiet kind's cache has seen nothing for long.
    return { resource: `g/${plural}`, revision: toRevision(0), objects: objects.values() }
  })
  const difference = new StateDifference(toRevision(from), known)
  for (const step of after) store.take(step)
  for (const row of store.rows()) difference.see(row)
  const verdicts = difference.conclude(toRevision(store.revision))
  const missed = store.history.filter(({ at }) => at > from)
  return { verdicts, missed, of: (plural: string) => told(verdicts.get(`g/${plural}`)) }
}

function told(verdict: Verdict | undefined): string[] | 'reset' | undefined {
  if (verdict?.kind !== 'exact') return verdict?.kind
  return verdict.changes.map(tell)
}

const tell = ({ name, revision, deleted }: ObjectChange) => `${deleted ? '-' : '+'}${name}@${revision}`

describe('the difference of two states', () => {
  const start = [put('a/1'), put('a/2'), put('b/1'), put('b/2'), put('c/1')]

  it('is the changes in between, each with its revision, where every object changed once', () => {
    const { of } = lose(start, [put('b/3'), put('a/1'), put('c/2'), bookkeeping, put('a/0')])
    expect(of('a')).toEqual(['+1@7', '+0@10'])
    expect(of('b')).toEqual(['+3@6'])
  })

  it('has the one deletion at the one revision that nothing else explains', () => {
    const { of } = lose(start, [put('a/1'), remove('b/2'), put('b/1')])
    expect(of('a')).toEqual(['+1@6'])
    expect(of('b')).toEqual(['-2@7', '+1@8'])
  })

  it('tells no order of several deletions, but the changes of the other kinds', () => {
    const { of } = lose(start, [remove('b/1'), put('a/1'), remove('b/2')])
    expect(of('b')).toBe('reset')
    expect(of('a')).toEqual(['+1@7'])
  })

  it('tells two deletions apart where an object that was created anew leaves only one way', () => {
    const { of } = lose(start, [remove('a/1'), put('a/1'), remove('b/2')])
    expect(of('a')).toEqual(['-1@6', '+1@7'])
    expect(of('b')).toEqual(['-2@8'])
  })

  it('resets every kind when something has happened that left no trace', () => {
    for (const traceless of [
      [bookkeeping, bookkeeping, bookkeeping],
      [foreign],
      [put('a/1'), put('a/1')],
      [put('a/9'), remove('a/9')],
      [remove('c/1')],
      [put('a/1'), remove('a/1')],
    ]) {
      const { of } = lose(start, [...traceless, put('b/1')])
      expect([of('a'), of('b')]).toEqual(['reset', 'reset'])
    }
  })

  it('resets a kind alone in which an object was written twice, where a trace says that it was that kind', () => {
    for (const twice of [
      [put('a/9'), put('a/9')],
      [put('a/1', 'value'), put('a/1')],
    ]) {
      const { of } = lose(start, [...twice, put('b/1')])
      expect([of('a'), of('b')]).toEqual(['reset', ['+1@8']])
    }
  })

  it('resets a kind alone in which objects were written often, where the store counts the writes', () => {
    const often = [put('a/1'), put('a/1'), put('b/1'), put('a/1'), put('a/9'), put('a/9'), put('a/9')]
    const { of } = lose(start, often, true)
    expect([of('a'), of('b')]).toEqual(['reset', ['+1@8']])
    const withDeletion = lose(start, [...often, remove('b/2')], true)
    expect([withDeletion.of('a'), withDeletion.of('b')]).toEqual(['reset', 'reset'])
    const withForeign = lose(start, [...often, foreign], true)
    expect([withForeign.of('a'), withForeign.of('b')]).toEqual(['reset', 'reset'])
    const uncounted = lose(start, often)
    expect([uncounted.of('a'), uncounted.of('b')]).toEqual(['reset', 'reset'])
  })

  it('takes the rounds of compaction for what they are, of which the record tells', () => {
    const store = new Model()
    for (const step of start) store.take(step)
    const difference = new StateDifference(toRevision(5), [
      {
        resource: 'g/c',
        revision: toRevision(5),
        objects: [{ name: '1', revision: toRevision(5) }].values(),
      },
    ])
    for (const step of [foreign, put('c/1'), foreign]) store.take(step)
    for (const row of store.rows()) difference.see(row)
    difference.seeRounds([6, 8].map(toRevision))
    expect(told(difference.conclude(toRevision(8)).get('g/c'))).toEqual(['+1@7'])
  })

  it('resets every kind when the present contradicts what was followed', () => {
    const store = new Model()
    for (const step of [...start, put('a/1')]) store.take(step)
    const known = (revision: number) =>
      new StateDifference(toRevision(6), [
        {
          resource: 'g/a',
          revision: toRevision(6),
          objects: [
            { name: '1', revision: toRevision(revision) },
            { name: '2', revision: toRevision(2) },
          ].values(),
        },
        {
          resource: 'g/c',
          revision: toRevision(6),
          objects: [{ name: '1', revision: toRevision(5) }].values(),
        },
      ])
    for (const [revision, expected] of [
      [6, []],
      [1, 'reset'],
    ] as const) {
      const difference = known(revision)
      for (const row of store.rows()) difference.see(row)
      expect(told(difference.conclude(toRevision(6)).get('g/c'))).toEqual(expected)
    }
  })

  it('is the real history wherever it is told as exact, and is told wherever that is possible', () => {
    const plural = fc.constantFrom('a', 'b', 'c')
    const name = fc.tuple(plural, fc.nat({ max: 5 })).map(([kind, n]) => `${kind}/${n}`)
    const step: fc.Arbitrary<Step> = fc.oneof(
      { weight: 6, arbitrary: name.map(to => put(to)) },
      { weight: 2, arbitrary: fc.tuple(name, fc.constantFrom('x', 'y')).map(([to, by]) => put(to, by)) },
      { weight: 2, arbitrary: name.map(remove) },
      { weight: 1, arbitrary: fc.constant(bookkeeping) },
      { weight: 1, arbitrary: fc.constant(foreign) },
    )
    let [exact, reset] = [0, 0]
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 30 }),
        fc.array(step, { maxLength: 6 }),
        fc.boolean(),
        (before, after, counts) => {
          const { verdicts, missed } = lose(before, after, counts)
          for (const kind of ['a', 'b']) {
            const real = missed.flatMap(({ at, step: { do: what, ...rest } }) => {
              const [of, object] = 'to' in rest ? rest.to.split('/') : []
              return of === kind ? [`${what === 'delete' ? '-' : '+'}${object}@${at}`] : []
            })
            const verdict = verdicts.get(`g/${kind}`)
            if (verdict?.kind === 'exact') expect(verdict.changes.map(tell)).toEqual(real)
            else expect(canBeTold(kind, before, missed, counts)).toBe(false)
            if (verdict?.kind === 'exact' && real.length > 0) exact++
            if (verdict?.kind === 'reset') reset++
          }
        },
      ),
      { numRuns: 5_000 },
    )
    expect(Math.min(exact, reset)).toBeGreaterThan(500)
  })
})

/**
 * Whether a kind's changes can be told, judged by what really happened: nothing was left without a trace but deletions
 * of what was followed, and writes that the store counts; in this kind each object changed once, and nothing can be
 * confused with its deletions.
 */
function canBeTold(
  kind: string,
  before: readonly Step[],
  missed: readonly { readonly step: Step }[],
  counts: boolean,
): boolean {
  const store = new Model()
  for (const step of before) store.take(step)
  const stories = new Map<string, string>()
  for (const { step } of missed) {
    if (step.do === 'foreign') return false
    const of = 'to' in step ? step.to : 'bookkeeping'
    stories.set(of, `${stories.get(of) ?? (store.has(of) ? 'was ' : 'new ')}${step.do} `)
  }
  const bookkeeping = stories.get('bookkeeping') ?? ''
  stories.delete('bookkeeping')
  // The same key each time, so that only the last one leaves a trace.
  if (bookkeeping.split(' ').length > 3) return false
  const tellable = /^(was (put|delete|delete put)|new put) $/
  // A creation leaves a trace as well as the last write.
  const traced = /^(was (put|delete|delete put|delete put put)|new put|new put put) $/
  const counted = /^(was (put |delete )?|new )(put )*$/
  let confusing = 0
  for (const [to, story] of stories) {
    const isOwn = to.startsWith(`${kind}/`)
    if (isOwn && !tellable.test(story)) return false
    if (story.includes('delete')) {
      if (to.startsWith('c/')) return false
      confusing++
    }
    if (traced.test(story)) continue
    // How often what is not followed had been written before is not known.
    if (!counts || !counted.test(story) || (to.startsWith('c/') && story.startsWith('was '))) return false
    confusing++
  }
  const own = [...stories].some(([to, story]) => to.startsWith(`${kind}/`) && story.includes('delete'))
  return !own || confusing === 1
}
