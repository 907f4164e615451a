import { parseArgs } from 'node:util'
import { type Store, stores } from '../support/worlds.ts'
import { reportAvailability } from './availability.ts'
import { type SoakResult, soak } from './run-soak.ts'

/**
 * `npm run soak [-- --minutes 10 --store etcd --seed 7]`, or `npm run soak -- availability [--minutes 10 --seed 7]`:
 * exits with 1 on a violation.
 */
const defaultMinutes = 10

const { minutes, seed, wanted, what } = readArguments()
let failed = false
if (what === 'availability') failed = !(await reportAvailability({ durationMs: minutes * 60_000, seed }))
else await soakStores()
process.exitCode = failed ? 1 : 0

async function soakStores(): Promise<void> {
  for (const store of wanted) await soakStore(store)
}

async function soakStore(store: Store): Promise<void> {
  const began = performance.now()
  const say = (line: string) => {
    const seconds = String(Math.round((performance.now() - began) / 1000)).padStart(5)
    console.log(`${seconds} s  ${store}: ${line}`)
  }
  say(`${minutes} minutes, seed ${seed}`)
  const result = await soak({ store, seed, durationMs: minutes * 60_000, say })
  failed = !report(result, say) || failed
}

/** Returns true if there was no violation. */
function report({ violations, planted, troubles }: SoakResult, say: (line: string) => void): boolean {
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
  wanted: readonly Store[]
  what: 'stores' | 'availability'
} {
  const usage = () => {
    console.error('usage: npm run soak -- [availability] [--minutes N] [--store embedded|etcd] [--seed N]')
    process.exit(2)
  }
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { minutes: { type: 'string' }, store: { type: 'string' }, seed: { type: 'string' } },
    })
    const minutes = Number(values.minutes ?? defaultMinutes)
    const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 32))
    const wanted = stores.filter(store => values.store === undefined || values.store === store)
    const [what = 'stores', ...more] = positionals
    if ((what !== 'stores' && what !== 'availability') || more.length > 0) return usage()
    if (!(minutes > 0) || !Number.isSafeInteger(seed) || wanted.length === 0) return usage()
    return { minutes, seed, wanted, what }
  } catch {
    return usage()
  }
}
