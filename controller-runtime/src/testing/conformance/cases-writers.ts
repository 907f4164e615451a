import type { ApiObject } from '../../api/object.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { ConformanceError } from './conformance-error.ts'
import { atCall, type CallPoint, type Lifecycles, runVariants, type Variant } from './lifecycles.ts'
import {
  addFinalizer,
  annotate,
  label,
  othersDomain,
  othersFinalizer,
  removeFinalizer,
} from './other-writers.ts'
import { type Disturb, describeCall } from './process-transport.ts'
import { Scenario } from './scenario.ts'

/** Cases in which another writer changes the object between the reconciler's read and its write. */
export function writerCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): ConformanceCase[] {
  return [
    {
      name: 'it does not overwrite changes that others make between its read and its write',
      async run() {
        const { calls } = await lifecycles.one()
        await runVariants(
          this.name,
          calls.filter(({ phase }) => phase === 'converging').map(call => othersWriteAt(lifecycles, call)),
        )
      },
    },
  ]
}

function othersWriteAt<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
  call: CallPoint,
): Variant {
  return {
    when: `another writer adds a label, an annotation and a finalizer before ${describeCall(call)}`,
    async run() {
      const { gone } = await lifecycles.one()
      await using scenario = await Scenario.open(lifecycles.subject)
      let written = false
      const write: Disturb = async (_call, carryOut) => {
        await label(scenario, 'label', 'theirs')
        await annotate(scenario, 'note', 'theirs')
        await addFinalizer(scenario, othersFinalizer, 'last')
        written = true
        return carryOut()
      }
      await scenario.create()
      await scenario.start({ disturb: atCall(call.number, write) })
      await scenario.until(`${describeCall(call)} is made`, () => written)
      await scenario.converged()
      const { labels, annotations, finalizers } = (await scenario.look()).metadata
      if (labels?.[`${othersDomain}/label`] !== 'theirs') throw lost('label', labels)
      if (annotations?.[`${othersDomain}/note`] !== 'theirs') throw lost('annotation', annotations)
      if (finalizers?.includes(othersFinalizer) !== true) throw lost('finalizer', finalizers)
      await scenario.deleteAll()
      await scenario.until('only the finalizer of the other writer is left', async () => {
        const { finalizers: left = [] } = (await scenario.look()).metadata
        return left.length === 1 && (await scenario.isQuiet())
      })
      await removeFinalizer(scenario, othersFinalizer)
      await scenario.gone()
      await scenario.expectSnapshot(gone)
    },
  }
}

function lost(what: string, left: unknown): ConformanceError {
  return new ConformanceError(
    `the ${what} of the other writer is lost; left is ${JSON.stringify(left ?? null)}`,
  )
}
