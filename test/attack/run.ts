import { parseArgs } from 'node:util'
import { bothStores, type Store } from '../support/worlds.ts'
import { Arena, type Result } from './arena.ts'
import type { Form } from './attack.ts'
import { attacksOn } from './attacks/index.ts'

/**
 * `npm run attack [-- --store embedded --only PART-OF-A-NAME --short]`: prints the outcome of each attack and exits
 * with 1 if a bound was broken.
 */
const { form, wantedStores, only } = readArguments()
let ran = 0
let broken = 0
for (const store of wantedStores) {
  await using arena = new Arena(store, form)
  for (const attack of attacksOn(store, form)) {
    if (!attack.name.includes(only)) continue
    const began = performance.now()
    const result = await arena.perform(attack)
    ran++
    if (result.broken.length + result.slow.length > 0) broken++
    report(`${store}, ${attack.attacker}: ${attack.name}`, result, performance.now() - began)
  }
}
console.log(`${ran} attacks, ${broken} broke a bound`)
process.exitCode = ran > 0 && broken === 0 ? 0 : 1

function report(title: string, { broken, slow, figures }: Result, tookMs: number): void {
  const problems = [...broken, ...slow]
  console.log(`${problems.length === 0 ? 'ok    ' : 'BROKEN'} ${title} (${Math.round(tookMs / 1000)} s)`)
  for (const problem of problems) console.log(`         ${problem}`)
  console.log(`       ${figures}`)
}

function readArguments(): { form: Form; wantedStores: readonly Store[]; only: string } {
  try {
    const { values } = parseArgs({
      options: { store: { type: 'string' }, only: { type: 'string' }, short: { type: 'boolean' } },
    })
    const wantedStores = bothStores.filter(store => values.store === undefined || values.store === store)
    const form = values.short === true ? 'short' : 'long'
    if (wantedStores.length > 0) return { form, wantedStores, only: values.only ?? '' }
  } catch {
    // The usage says which flags there are.
  }
  console.error('usage: npm run attack -- [--store embedded|etcd] [--only PART-OF-A-NAME] [--short]')
  process.exit(2)
}
