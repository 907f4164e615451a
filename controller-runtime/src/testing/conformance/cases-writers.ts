import type { ApiObject } from '../../api/object.ts'
import { objectKey } from '../../api/object-key.ts'
import { Finding } from './finding.ts'
import { atCall, type CallPoint, type Lifecycles } from './lifecycles.ts'
import {
  addFinalizer,
  annotate,
  label,
  othersDomain,
  othersFinalizer,
  removeFinalizer,
} from './other-writers.ts'
import type { Disturb } from './process-transport.ts'
import type { Guarantee, Variant } from './variants.ts'

/** Cases with another writer, who changes the object between the reconciler's read and its write. */
export function writerCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): Guarantee<T, Outside>[] {
  return [
    {
      name: 'it does not overwrite changes that others make between its read and its write',
      async variants() {
        const { points } = await lifecycles.baseline('one')
        return points
          .filter(({ phase }) => phase === 'converging')
          .map(point => othersWriteAt<T, Outside>(point))
      },
    },
  ]
}

function othersWriteAt<T extends ApiObject, Outside>(point: CallPoint): Variant<T, Outside> {
  return {
    after: `after another writer changed the object before ${point.actions[1]}`,
    when: `another writer adds a label, an annotation and a finalizer before ${point.call}`,
    baseline: 'one',
    async run(scenario, { gone }) {
      let writes: Promise<void> | undefined
      const write = () => {
        writes ??= label(scenario, 'label', 'theirs')
          .then(() => annotate(scenario, 'note', 'theirs'))
          .then(() => addFinalizer(scenario, othersFinalizer))
        return writes
      }
      const disturb: Disturb = (_call, carryOut) => write().then(carryOut)
      await scenario.create()
      await scenario.start({ disturb: atCall(point, disturb) })
      await scenario.reached(() => writes !== undefined)
      await write()
      await scenario.converged()
      const { labels, annotations, finalizers } = (await scenario.look()).metadata
      if (labels?.[`${othersDomain}/label`] !== 'theirs') throw lost('label', labels)
      if (annotations?.[`${othersDomain}/note`] !== 'theirs') throw lost('annotation', annotations)
      if (finalizers?.includes(othersFinalizer) !== true) throw lost('finalizer', finalizers)
      await scenario.deleteAll()
      await scenario.until('only the finalizer of the other writer is left', async () => {
        const { client, object, subject } = scenario
        const live = await client.getIfExists(subject.model, objectKey(object.metadata))
        const left = live?.metadata.finalizers ?? []
        if (!left.includes(othersFinalizer)) throw lost('finalizer', left)
        return left.length === 1 && (await scenario.isQuiet())
      })
      await removeFinalizer(scenario, othersFinalizer)
      await scenario.gone(gone)
    },
  }
}

function lost(what: string, left: unknown): Finding {
  return new Finding(
    `it overwrote the ${what} of the other writer`,
    `the ${what} of the other writer is lost; left is ${JSON.stringify(left ?? null)}`,
  )
}
