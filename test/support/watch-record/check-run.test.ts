import { type ChangeType, toRevision } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { gadget } from '../sdk/sample-models.ts'
import { checkRun } from './check-run.ts'
import { type Guarantee, guarantees } from './guarantees.ts'
import type { EventRecord, RunLog, WriteOutcome, WriteRecord } from './run-log.ts'

const at = toRevision

/** A gadget of a colour, with the mark of its last write. */
function thing(name: string, version: number, colour: string, mark: string) {
  const object = gadget(name, version, { size: 1 })
  return { ...object, spec: { ...object.spec, colour, mark } }
}

type Thing = ReturnType<typeof thing>

function isFields(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function fieldOf(object: { spec: unknown }, field: string): string | undefined {
  const value = isFields(object.spec) ? object.spec[field] : undefined
  return typeof value === 'string' ? value : undefined
}

function event(type: ChangeType, object: Thing): EventRecord {
  const version = at(Number(object.metadata.version))
  return { type, name: object.metadata.name, version, object }
}

function bookmark(version: number, endsInitialEvents = false): EventRecord {
  return { type: 'BOOKMARK', version: at(version), endsInitialEvents }
}

function gone(compacted: number): EventRecord {
  return { type: 'ERROR', code: 410, message: 'list again', compacted: at(compacted) }
}

interface Connection {
  start: 'present' | ReturnType<typeof at>
  acknowledged: ReturnType<typeof at>
  events: EventRecord[]
}

function from(start: 'present' | number, acknowledged: number, ...events: EventRecord[]): Connection {
  return { start: start === 'present' ? start : at(start), acknowledged: at(acknowledged), events }
}

function acknowledged(version: number, object?: Thing): WriteOutcome {
  return { kind: 'acknowledged', version: at(version), ...(object && { object }) }
}

const a10 = thing('a', 10, 'red', 'a-1')
const a11 = thing('a', 11, 'blue', 'a-2')
const b12 = thing('b', 12, 'red', 'b-1')
const b14 = thing('b', 14, 'red', 'b-2')
/** The last content that was red, with the version of the change that ended it. */
const a10at11 = thing('a', 11, 'red', 'a-1')
const a11at13 = thing('a', 13, 'blue', 'a-2')

/**
 * A correct run: `a` is created red (10), becomes blue (11) and is deleted (13); `b` is created red (12) and updated
 * (14). The witness sees everything, `reds` the red objects over two connections, `late` starts at 12.
 */
function goodRun() {
  const writes: WriteRecord[] = [
    { verb: 'create', name: 'a', mark: 'a-1', outcome: acknowledged(10, a10) },
    // Its response was lost; it happened.
    { verb: 'update', name: 'a', mark: 'a-2', outcome: { kind: 'unknown' } },
    { verb: 'create', name: 'a', mark: 'a-3', outcome: { kind: 'refused', why: '409' } },
    { verb: 'create', name: 'b', mark: 'b-1', outcome: acknowledged(12, b12) },
    { verb: 'delete', name: 'a', outcome: acknowledged(13) },
    { verb: 'update', name: 'b', mark: 'b-2', outcome: acknowledged(14, b14) },
    // This one did not happen.
    { verb: 'update', name: 'b', mark: 'b-3', outcome: { kind: 'unknown' } },
    { verb: 'delete', name: 'b', outcome: { kind: 'refused', why: '503' } },
  ]
  const witness = from(
    'present',
    0,
    bookmark(9, true),
    event('ADDED', a10),
    event('MODIFIED', a11),
    event('ADDED', b12),
    event('DELETED', a11at13),
    event('MODIFIED', b14),
    bookmark(15),
  )
  const reds = [
    from('present', 0, bookmark(9, true), event('ADDED', a10), event('DELETED', a10at11), bookmark(11)),
    from(11, 12, event('ADDED', b12), event('MODIFIED', b14), bookmark(15)),
  ]
  const late = from(
    'present',
    12,
    event('ADDED', a11),
    event('ADDED', b12),
    bookmark(12, true),
    event('DELETED', a11at13),
    event('MODIFIED', b14),
    bookmark(15),
  )
  const list = { name: 'list', selects: () => true, version: at(14), objects: [b14], acknowledged: at(14) }
  const watchers = [
    { name: 'witness', selects: () => true, witness: true, connections: [witness] },
    {
      name: 'reds',
      selects: (object: { spec: unknown }) => fieldOf(object, 'colour') === 'red',
      witness: false,
      connections: reds,
    },
    { name: 'late', selects: () => true, witness: false, connections: [late] },
  ]
  const log = {
    writes,
    watchers,
    lists: [list],
    otherWriters: false,
    markOf: (object: { spec: unknown }) => fieldOf(object, 'mark'),
    // `b` becomes red when `a` is blue.
    uniqueOf: (object: { spec: unknown }) => [fieldOf(object, 'colour') ?? ''],
  } satisfies RunLog
  const connection = (watcher: number, nth = 0): Connection => {
    const found = watchers[watcher]?.connections[nth]
    if (found === undefined) throw new Error('no such connection')
    return found
  }
  return { log, writes, witness, reds: [connection(1, 0), connection(1, 1)] as const, late, list }
}

type Run = ReturnType<typeof goodRun>

/** `guarantee seenBy` of every violation, without repetition. */
function found({ log }: Run, upTo?: number): string[] {
  const violations = checkRun(log, upTo === undefined ? {} : { upTo: at(upTo) })
  for (const { message } of violations) expect(message).toMatch(/\w/)
  return [...new Set(violations.map(({ guarantee, seenBy = 'writer' }) => `${guarantee}: ${seenBy}`))]
}

/** For each guarantee, changes of a correct run that violate only this guarantee, and who sees it. */
const broken: Record<Guarantee, [string, (run: Run) => void, string][]> = {
  'unique value': [
    [
      'two objects with the same value',
      run => {
        run.log.uniqueOf = () => ['same']
      },
      'writer',
    ],
  ],
  filter: [
    [
      'a change of an object that does not match',
      run => run.reds[0].events.splice(2, 1, event('MODIFIED', a11)),
      'reds',
    ],
    [
      'an object that starts to match as MODIFIED',
      run => run.reds[1].events.splice(0, 1, event('MODIFIED', b12)),
      'reds',
    ],
    [
      'an object that keeps matching as ADDED',
      run => run.reds[1].events.splice(1, 1, event('ADDED', b14)),
      'reds',
    ],
    [
      'a deletion of an object that never matched',
      run => run.reds[1].events.splice(1, 0, event('DELETED', a11at13)),
      'reds',
    ],
  ],
  ordered: [
    [
      'two changes in the wrong order',
      run => run.late.events.splice(3, 2, ...swapped(run.late.events, 3)),
      'late',
    ],
  ],
  unique: [
    ['a change twice', run => run.late.events.splice(4, 0, event('DELETED', a11at13)), 'late'],
    [
      'a repeated change after a reconnect',
      run => {
        run.reds[0].events.push(event('ADDED', b12))
        run.reds[1].start = at(12)
      },
      'reds',
    ],
  ],
  atomic: [
    [
      'a change of another object at the same version',
      run => run.late.events.splice(4, 1, event('MODIFIED', thing('c', 14, 'red', 'b-2'))),
      'late',
    ],
  ],
  bookmarkable: [
    ['a change below a bookmark', run => run.late.events.splice(4, 0, bookmark(14)), 'late'],
    ['a bookmark that goes back', run => run.late.events.push(bookmark(14)), 'late'],
  ],
  resumable: [
    [
      'a change before the resumed version',
      run => {
        run.reds[0].events.splice(2, 1)
        run.reds[1].events.unshift(event('DELETED', a10at11))
      },
      'reds',
    ],
  ],
  reliable: [
    ['a missing change', run => run.late.events.splice(3, 1), 'late'],
    ['a missing change between two connections', run => run.reds[1].events.splice(0, 1), 'reds'],
    ['the last change before a reconnection', run => run.reds[0].events.splice(2, 1), 'reds'],
    ['a change that only the witness has not seen', run => run.witness.events.splice(5, 1), 'witness'],
  ],
  'previous state': [
    [
      'a deletion with the new content',
      run => run.reds[0].events.splice(2, 1, event('DELETED', a11)),
      'reds',
    ],
    [
      'a deletion with another version in its object',
      run => {
        const [, , deleted] = run.reds[0].events
        if (deleted?.type === 'DELETED') run.reds[0].events[2] = { ...deleted, object: a10 }
      },
      'reds',
    ],
  ],
  genuine: [
    [
      'a change that never happened',
      run => run.late.events.splice(5, 0, event('MODIFIED', thing('b', 15, 'red', 'b-2'))),
      'late',
    ],
    [
      'other content',
      run => run.late.events.splice(4, 1, event('MODIFIED', thing('b', 14, 'green', 'b-2'))),
      'late',
    ],
  ],
  'initial state': [
    ['a missing object', run => run.late.events.splice(0, 1), 'late'],
    [
      'an extra object',
      run => run.late.events.splice(2, 0, event('ADDED', thing('c', 8, 'red', ''))),
      'late',
    ],
    ['an object twice', run => run.late.events.splice(1, 0, event('ADDED', a11)), 'late'],
    ['an older state of an object', run => run.late.events.splice(0, 1, event('ADDED', a10)), 'late'],
    ['not by name', run => run.late.events.splice(0, 2, ...swapped(run.late.events, 0)), 'late'],
    ['not as ADDED', run => run.late.events.splice(1, 1, event('MODIFIED', b12)), 'late'],
    [
      'no end, and a client that resumes',
      run => {
        run.reds[0].events.splice(0, 4)
      },
      'reds',
    ],
  ],
  list: [
    ['a missing object', run => run.list.objects.pop(), 'list'],
    ['an object that is gone', run => run.list.objects.unshift(a11), 'list'],
    ['an older state of an object', run => run.list.objects.splice(0, 1, b12), 'list'],
  ],
  fresh: [
    [
      'a list older than an acknowledged write',
      run => {
        run.list.acknowledged = at(15)
      },
      'list',
    ],
    [
      'initial events older than an acknowledged write',
      run => {
        run.late.acknowledged = at(13)
      },
      'late',
    ],
  ],
  expiry: [
    ['a 410 although nothing was compacted', run => run.reds[0].events.push(gone(0)), 'reds'],
    ['a 410 at a version that is still kept', run => run.reds[0].events.push(gone(11)), 'reds'],
  ],
  acknowledged: [
    [
      'a write that no watcher has seen',
      run => run.writes.push({ verb: 'update', name: 'b', mark: 'b-4', outcome: acknowledged(15) }),
      'writer',
    ],
    [
      'a version that is a change of another object',
      run => run.writes.push({ verb: 'update', name: 'c', outcome: acknowledged(14) }),
      'writer',
    ],
    [
      'a missing mark',
      run => run.writes.push({ verb: 'update', name: 'b', mark: 'b-4', outcome: acknowledged(14) }),
      'writer',
    ],
    [
      'other content than was returned',
      run => {
        const other = thing('b', 14, 'green', 'b-2')
        run.writes.push({ verb: 'update', name: 'b', outcome: acknowledged(14, other) })
      },
      'writer',
    ],
    [
      'a deletion that did not happen',
      run => run.writes.push({ verb: 'delete', name: 'b', outcome: acknowledged(14) }),
      'writer',
    ],
  ],
  refused: [
    [
      'a refused write that happened',
      run => {
        run.writes[1] = { verb: 'update', name: 'a', mark: 'a-2', outcome: { kind: 'refused', why: '503' } }
      },
      'writer',
    ],
    [
      'a refused deletion that happened',
      run => {
        run.writes[4] = { verb: 'delete', name: 'a', outcome: { kind: 'refused', why: '503' } }
      },
      'writer',
    ],
  ],
  once: [
    [
      'a write twice',
      run => {
        const again = thing('b', 15, 'red', 'a-2')
        run.witness.events.splice(6, 0, event('MODIFIED', again))
        run.late.events.splice(5, 0, event('MODIFIED', again))
        run.reds[1].events.splice(2, 0, event('MODIFIED', again))
      },
      'writer',
    ],
  ],
}

function swapped(events: readonly EventRecord[], index: number): EventRecord[] {
  const [first, second] = events.slice(index, index + 2)
  return first && second ? [second, first] : []
}

describe('a run', () => {
  it('that keeps every guarantee has no violation', () => {
    expect(found(goodRun(), 15)).toEqual([])
  })

  describe.each(Object.entries(broken))('that violates “%s”', (guarantee, cases) => {
    it.each(cases)('by %s has only that violation', (_what, doIt, seenBy) => {
      const run = goodRun()
      doIt(run)
      expect(found(run)).toEqual([`${guarantee}: ${seenBy}`])
    })
  })

  it('names every guarantee', () => {
    expect(Object.keys(broken).sort()).toEqual(Object.keys(guarantees).sort())
  })

  it('that a watcher did not follow to its end has a violation', () => {
    const run = goodRun()
    run.late.events.pop()
    expect(found(run)).toEqual([])
    expect(found(run, 15)).toEqual(['reliable: late'])
  })

  it('may send 410 to a watcher whose next changes were compacted', () => {
    const run = goodRun()
    const [, reds] = run.log.watchers
    reds?.connections.splice(
      1,
      1,
      from(11, 12, gone(12)),
      from('present', 14, event('ADDED', b14), bookmark(14, true), bookmark(15)),
    )
    expect(found(run, 15)).toEqual([])
  })

  it('may have changes of other writers, if allowed', () => {
    const run = goodRun()
    run.writes.splice(1, 1)
    run.writes.splice(3, 1)
    expect(found(run)).toEqual(['genuine: writer', ...found(run).slice(1)])
    expect(checkRun({ ...run.log, otherWriters: true })).toEqual([])
  })

  it('whose witness lists again after a 410 is checked on both sides of the gap', () => {
    const run = goodRun()
    const [witness] = run.log.watchers
    const [first, second, third] = [run.witness.events.slice(0, 3), event('MODIFIED', b14), bookmark(15)]
    witness?.connections.splice(
      0,
      1,
      from('present', 0, ...first, gone(12)),
      from('present', 13, event('ADDED', b12), bookmark(13, true), second, third),
    )
    expect(found(run, 15)).toEqual([])
    run.late.events.splice(3, 1)
    expect(found(run, 15)).toEqual([])
    run.late.events.splice(3, 1)
    expect(found(run, 15)).toEqual(['reliable: late'])
  })

  it('may give a value again to an object that lost it in a gap', () => {
    const run = goodRun()
    const connections = [
      from('present', 0, bookmark(9, true), event('ADDED', a10), gone(12)),
      from(
        'present',
        13,
        event('ADDED', a11),
        bookmark(13, true),
        event('MODIFIED', thing('a', 14, 'red', 'a-4')),
      ),
    ]
    const watchers = [{ name: 'witness', selects: () => true, witness: true, connections }]
    expect(checkRun({ ...run.log, writes: [], lists: [], watchers, otherWriters: true })).toEqual([])
  })

  it('without a witness cannot be checked', () => {
    const run = goodRun()
    expect(() => checkRun({ ...run.log, watchers: run.log.watchers.slice(1) })).toThrow(/witness/)
  })

  it('may delete an object by removing its last finalizer', () => {
    const run = goodRun()
    const deleting = (version: number, finalizers: string[]) => {
      const object = thing('b', version, 'red', 'b-2')
      return {
        ...object,
        metadata: { ...object.metadata, deletionTimestamp: '2030-01-02T00:00:00.000Z', finalizers },
      }
    }
    const [b15, b16] = [deleting(15, ['x/y']), deleting(16, [])]
    const last = deleting(16, ['x/y'])
    run.writes.push({ verb: 'delete', name: 'b', outcome: acknowledged(15, b15) })
    run.writes.push({ verb: 'update', name: 'b', outcome: acknowledged(16, b16) })
    for (const { events } of [run.witness, run.late, run.reds[1]])
      events.splice(-1, 1, event('MODIFIED', b15), event('DELETED', last), bookmark(17))
    expect(found(run, 17)).toEqual([])
  })
})
