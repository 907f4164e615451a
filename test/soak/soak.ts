import { parseArgs } from 'node:util'
import { bothStores, type Store } from '../support/worlds.ts'
import { reportAvailability } from './availability.ts'
import { reportClients } from './clients.ts'
import { reportSpecs } from './e2e.ts'
import { type SoakResult, soak } from './run-soak.ts'
import { type Say, startSaying } from './say.ts'
import { reportUpgrade, upgradeDefaults } from './upgrade.ts'

/**
 * `npm run soak [-- --minutes 10 --store etcd --seed 7]`, `npm run soak -- availability [--minutes 10 --seed 7]`,
 * `npm run soak -- clients [--minutes 10 --store etcd --seed 7]`, `npm run soak -- upgrade [--store etcd --objects 10000]`, or
 * `npm run soak -- e2e [--store etcd]`: exits with 1 on a violation.
 */
const defaultMinutes = 10

const soaks = ['stores', 'availability', 'clients', 'upgrade', 'e2e'] as const

const { minutes, seed, objects, wanted, what } = readArguments()
let failed = false
if (what === 'availability') failed = !(await reportAvailability({ durationMs: minutes * 60_000, seed }))
else if (what === 'clients')
  for (const store of wanted) failed = !(await reportClients(store, minutes * 60_000, seed)) || failed
else if (what === 'upgrade')
  for (const store of wanted) failed = !(await reportUpgrade(store, objects)) || failed
else if (what === 'e2e') failed = (await Promise.all(wanted.map(reportSpecs))).includes(false)
else await soakStores()
process.exitCode = failed ? 1 : 0

async function soakStores(): Promise<void> {
  for (const store of wanted) await soakStore(store)
}

async function soakStore(store: Store): Promise<void> {
  const say = startSaying(store)
  say(`${minutes} minutes, seed ${seed}`)
  const result = await soak({ store, seed, durationMs: minutes * 60_000, say })
  failed = !report(result, say) || failed
}

/** Returns true if there was no violation. */
function report({ violations, planted, troubles }: SoakResult, say: Say): boolean {
  say(
    `trouble: ${Object.entries(troubles)
      .map(([what, count]) => `${what} ${count}`)
      .join(', ')}`,
  )
  for (const { guarantee, seenBy, message } of violations)
    say(`VIOLATION (${guarantee}${seenBy === undefined ? '' : `, ${seenBy}`}): ${message}`)
  const [found, ...more] = planted.found
  const isFound =
    found?.guarantee === 'reliable' && more.length === 0 && found.message.includes(`${planted.version}`)
  if (isFound) say(`the event that was dropped on purpose was found: ${found.message}`)
  else
    say(
      `VIOLATION: the event of version ${planted.version} was dropped on purpose; found: ${JSON.stringify(planted.found)}`,
    )
  say(violations.length === 0 ? 'no violation' : `${violations.length} violations`)
  return isFound && violations.length === 0
}

function readArguments(): {
  minutes: number
  seed: number
  objects: number
  wanted: readonly Store[]
  what: (typeof soaks)[number]
} {
  const usage = () => {
    console.error(
      'usage: npm run soak -- [availability | clients | upgrade | e2e] [--minutes N] [--store embedded|etcd] [--seed N] [--objects N]',
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
      },
    })
    const minutes = Number(values.minutes ?? defaultMinutes)
    const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 32))
    const wanted = bothStores.filter(store => values.store === undefined || values.store === store)
    const objects = Number(values.objects ?? upgradeDefaults.objects)
    const [wish = 'stores', ...more] = positionals
    const what = soaks.find(name => name === wish)
    if (what === undefined || more.length > 0) return usage()
    if (!(minutes > 0) || !Number.isSafeInteger(seed) || wanted.length === 0) return usage()
    if (!Number.isSafeInteger(objects) || objects < upgradeDefaults.writers) return usage()
    return { minutes, seed, objects, wanted, what }
  } catch {
    return usage()
  }
}
