import type { Store } from '../../support/worlds.ts'
import type { Attack, Form } from '../attack.ts'
import { bodyAttacks } from './bodies.ts'
import { connectionAttacks } from './connections.ts'
import { disclosureAttacks } from './disclosure.ts'
import { floodAttacks } from './floods.ts'
import { listAttacks } from './lists.ts'
import { objectAttacks } from './objects.ts'
import { watchAttacks } from './watches.ts'

const all: readonly Attack[] = [
  ...connectionAttacks,
  ...disclosureAttacks,
  ...floodAttacks,
  ...objectAttacks,
  ...bodyAttacks,
  ...watchAttacks,
  ...listAttacks,
]

/** Returns the attacks on a store. Attacks with the same setup are adjacent; those with many objects come last. */
export function attacksOn(store: Store, form: Form): readonly Attack[] {
  const wanted = all.filter(
    ({ stores = ['embedded'], longOnly }) => stores.includes(store) && (form === 'long' || longOnly !== true),
  )
  const setups = [...new Set(wanted.map(({ setup }) => setup))]
  return setups.flatMap(setup =>
    wanted
      .filter(attack => attack.setup === setup)
      .sort((a, b) => (a.objects?.[form] ?? 0) - (b.objects?.[form] ?? 0)),
  )
}
