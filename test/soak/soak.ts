import { parseArgs } from 'node:util'
import { bothStores, type Store } from '../support/worlds.ts'
import { reportAvailability } from './availability.ts'
import { reportBackup } from './backup.ts'
import { reportClients } from './clients.ts'
import { reportSpecs } from './e2e.ts'
import { tableOf } from './footprint.ts'
import { reportOperators } from './operators.ts'
import { report } from './report.ts'
import { reportRolling, rollingDefaults } from './rolling.ts'
import { type SoakResult, soak } from './run-soak.ts'
import { type Say, startSaying } from './say.ts'
import { reportUpgrade, upgradeDefaults } from './upgrade.ts'

/**
 * `npm run soak [-- --minutes 10 --store etcd --members 3 --seed 7]`, `npm run soak -- availability [--minutes 10
 * --seed 7]`, `npm run soak -- clients [--minutes 10 --store etcd --seed 7]`, `npm run soak -- operators [as
 * clients]`, `npm run soak -- upgrade [--store etcd --objects 10000]`, `npm run soak -- backup [--store etcd --objects
 * 100000]`, `npm run soak -- rolling [--from COMMIT --minutes 10 --seed 7]`, or `npm run soak -- e2e [--store etcd]`:
 * exits with 1 on a violation.
 */
const defaultMinutes = 10

const soaks = [
  'stores',
  'availability',
  'clients',
  'operators',
  'upgrade',
  'rolling',
  'backup',
  'e2e',
] as const

const { minutes, seed, objects, members, from, wanted, what } = readArguments()
let failed = false
if (what === 'availability') failed = !(await reportAvailability({ durationMs: minutes * 60_000, seed }))
else if (what === 'clients')
  for (const store of wanted) failed = !(await reportClients(store, minutes * 60_000, seed)) || failed
else if (what === 'operators')
  for (const store of wanted) failed = !(await reportOperators(store, minutes * 60_000, seed)) || failed
else if (what === 'upgrade')
  for (const store of wanted) failed = !(await reportUpgrade(store, objects)) || failed
else if (what === 'rolling') failed = !(await reportRolling({ from, seed, durationMs: minutes * 60_000 }))
else if (what === 'backup')
  for (const store of wanted) failed = !(await reportBackup(store, objects)) || failed
else if (what === 'e2e') failed = (await Promise.all(wanted.map(reportSpecs))).includes(false)
else await soakStores()
process.exitCode = failed ? 1 : 0

async function soakStores(): Promise<void> {
  for (const store of wanted) await soakStore(store)
}

async function soakStore(store: Store): Promise<void> {
  const say = startSaying(members === 1 ? store : `${store} of ${members}`)
  say(`${minutes} minutes, seed ${seed}`)
  const result = await soak({ store, members, seed, durationMs: minutes * 60_000, say })
  failed = !isRight(result, say) || failed
}

/** Returns true if there was no violation. */
function isRight({ troubles, measured, ...verdict }: SoakResult, say: Say): boolean {
  say(
    `trouble: ${Object.entries(troubles)
      .map(([what, count]) => `${what} ${count}`)
      .join(', ')}`,
  )
  console.log(tableOf(measured))
  const growing = measured.judgements.filter(({ isViolation }) => isViolation)
  for (const { what, verdict } of growing) say(`VIOLATION: ${what} ${verdict}`)
  return report(verdict, say) && growing.length === 0
}

function readArguments(): {
  minutes: number
  seed: number
  objects: number
  members: number
  from: string
  wanted: readonly Store[]
  what: (typeof soaks)[number]
} {
  const usage = () => {
    console.error(
      'usage: npm run soak -- [availability | clients | operators | upgrade | rolling | backup | e2e] [--minutes N] [--store embedded|etcd] [--members 1|3] [--seed N] [--objects N] [--from COMMIT]',
    )
    process.exit(2)
  }
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        minutes: { type: 'string' },
        store: { type: 'string' },
        seed: { type: 'string' },
        objects: { type: 'string' },
        members: { type: 'string' },
        from: { type: 'string' },
      },
    })
    const minutes = Number(values.minutes ?? defaultMinutes)
    const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 32))
    const members = Number(values.members ?? 1)
    // The embedded store has no members.
    const possible = bothStores.filter(store => store === 'etcd' || members === 1)
    const wanted = possible.filter(store => values.store === undefined || values.store === store)
    const objects = Number(values.objects ?? upgradeDefaults.objects)
    const [wish = 'stores', ...more] = positionals
    const what = soaks.find(name => name === wish)
    if (what === undefined || more.length > 0) return usage()
    if (!(minutes > 0) || !Number.isSafeInteger(seed) || wanted.length === 0) return usage()
    if (!Number.isSafeInteger(objects) || objects < upgradeDefaults.writers) return usage()
    if (members !== 1 && members !== 3) return usage()
    const { from = rollingDefaults.from } = values
    return { minutes, seed, objects, members, from, wanted, what }
  } catch {
    return usage()
  }
}
