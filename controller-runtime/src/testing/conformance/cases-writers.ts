import type { ApiObject } from '../../api/object.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { ConformanceError } from './conformance-error.ts'
import { atCall, type CallPoint, type Lives, runVariants, type Variant } from './lives.ts'
import { addFinalizer, annotate, label, othersDomain, othersFinalizer, removeFinalizer } from './others.ts'
import { type Disturb, describeCall } from './process-transport.ts'
import { Stage } from './stage.ts'

/** Somebody else may write the object between the reconciler's read and its write. */
export function writerCases<T extends ApiObject, Outside>(lives: Lives<T, Outside>): ConformanceCase[] {
  return [
    {
      name: 'it overwrites nothing that others write between its read and its write',
      async run() {
        const { calls } = await lives.one()
        await runVariants(
          this.name,
          calls.filter(({ phase }) => phase === 'converging').map(call => othersWriteAt(lives, call)),
        )
      },
    },
  ]
}

function othersWriteAt<T extends ApiObject, Outside>(lives: Lives<T, Outside>, call: CallPoint): Variant {
  return {
    when: `somebody adds a label, an annotation and a finalizer before ${describeCall(call)}`,
    async run() {
      const { gone } = await lives.one()
      await using stage = await Stage.open(lives.subject)
      let written = false
      const write: Disturb = async (_call, carryOut) => {
        await label(stage, 'label', 'theirs')
        await annotate(stage, 'note', 'theirs')
        await addFinalizer(stage, othersFinalizer, 'last')
        written = true
        return carryOut()
      }
      await stage.create()
      await stage.start({ disturb: atCall(call.number, write) })
      await stage.until(`${describeCall(call)} is made`, () => written)
      await stage.converged()
      const { labels, annotations, finalizers } = (await stage.look()).metadata
      if (labels?.[`${othersDomain}/label`] !== 'theirs') throw lost('label', labels)
      if (annotations?.[`${othersDomain}/note`] !== 'theirs') throw lost('annotation', annotations)
      if (finalizers?.includes(othersFinalizer) !== true) throw lost('finalizer', finalizers)
      await stage.deleteAll()
      await stage.until("only the other's finalizer is left", async () => {
        const { finalizers: left = [] } = (await stage.look()).metadata
        return left.length === 1 && (await stage.isQuiet())
      })
      await removeFinalizer(stage, othersFinalizer)
      await stage.gone()
      await stage.expectWorld(gone)
    },
  }
}

function lost(what: string, left: unknown): ConformanceError {
  return new ConformanceError(`the other's ${what} is lost; what is left is ${JSON.stringify(left ?? null)}`)
}
