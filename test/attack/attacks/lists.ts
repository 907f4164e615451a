import { bothStores } from '../../support/worlds.ts'
import type { Attack, Scene } from '../attack.ts'
import { type Call, call, callAll, statusesOf } from '../call.ts'
import { neighbourhood } from '../witness.ts'

/** Attacks of a viewer on the time and memory of lists. */

const { collection } = neighbourhood
const crowd = Object.freeze({ short: 500, long: 20_000 })

function query(parameters: readonly (readonly [string, string])[]): string {
  const search = new URLSearchParams()
  for (const [name, value] of parameters) search.append(name, value)
  return `${collection}?${search}`
}

/** Each list has its own selector and order, so that no two can share an index. */
function distinctLists(scene: Scene): Call[] {
  return Array.from({ length: scene.count(200, 600) }, (_, n) => ({
    path: query([
      ['labelSelector', `team!=t${n},attack.example.com/n notin (${n},x${n})`],
      ['fieldSelector', `spec.rank!=${String(n % 90).padStart(6, '0')},spec.tags notin (t${n % 50},x)`],
      ['sort', `spec.level,${n % 2 === 0 ? 'desc' : 'asc'}`],
      ['sort', `spec.rank,${n % 4 < 2 ? 'desc' : 'asc'}`],
      ['size', '1'],
    ]),
    as: 'viewer',
    signal: scene.signal,
    abandon: { afterMs: 1_000 },
  }))
}

export const listAttacks: readonly Attack[] = [
  {
    name: '600 distinct lists, abandoned after a second',
    attacker: 'viewer',
    stores: bothStores,
    objects: crowd,
    async run(scene) {
      const lists = distinctLists(scene)
      const replies = await callAll(scene.target, lists, lists.length)
      const allowed = [0, 200, 429]
      scene.check(
        replies.every(({ status }) => allowed.includes(status)),
        `the responses were ${statusesOf(replies)}`,
      )
      // The work of clients that have left must be over: the second caller gets its usual latency.
      const began = performance.now()
      const { status } = await call(scene.target, {
        path: `${collection}?size=1`,
        as: 'neighbour',
        signal: scene.signal,
      })
      scene.check(status === 200, `a list of the second caller got ${status} afterwards`)
      scene.checkMs('a list of the second caller right afterwards', performance.now() - began, 1_000)
    },
  },
  {
    name: '200 gzipped lists, abandoned half-read',
    attacker: 'viewer',
    objects: crowd,
    async run(scene) {
      const request: Call = {
        path: collection,
        as: 'viewer',
        headers: { 'accept-encoding': 'gzip' },
        signal: scene.signal,
        abandon: 'at first bytes',
      }
      const replies = await callAll(scene.target, Array(scene.count(50, 200)).fill(request), 50)
      const allowed = [200, 429]
      scene.check(
        replies.every(({ status }) => allowed.includes(status)),
        `the responses were ${statusesOf(replies)}`,
      )
    },
  },
  {
    name: 'selectors and sorts past their limits',
    attacker: 'viewer',
    async run(scene) {
      const terms = (count: number) => Array.from({ length: count }, (_, n) => `l${n}!=v`).join(',')
      const past: Readonly<Record<string, string>> = {
        '101 label terms': query([['labelSelector', terms(101)]]),
        '101 field terms': query([
          ['fieldSelector', Array.from({ length: 101 }, (_, n) => `metadata.name!=n${n}`).join(',')],
        ]),
        '17 KiB of selectors': query([['labelSelector', `l in (${'v'.repeat(60)}${',w'.repeat(8_600)})`]]),
        '5 sort keys': query(
          ['spec.rank', 'spec.level', 'spec.tags', 'metadata.name', 'metadata.creationTimestamp'].map(
            key => ['sort', key] as const,
          ),
        ),
      }
      for (const [what, path] of Object.entries(past)) {
        const { status, bytes } = await call(scene.target, { path, as: 'viewer', signal: scene.signal })
        scene.check(status === 400, `${what}: ${status} instead of 400`)
        scene.check(bytes < 16 * 1024, `${what}: a response of ${bytes} bytes`)
      }
    },
  },
]
