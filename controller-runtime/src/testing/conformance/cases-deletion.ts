import type { ApiObject } from '../../api/object.ts'
import { objectKey } from '../../api/object-key.ts'
import { Dependents } from './dependents.ts'
import { Finding } from './finding.ts'
import { atCall, type CallPoint, type Lifecycles, placeOf } from './lifecycles.ts'
import { addFinalizer, othersFinalizer, removeFinalizer } from './other-writers.ts'
import type { Disturb } from './process-transport.ts'
import type { Outage } from './reconciler-under-test.ts'
import type { Guarantee, Variant } from './variants.ts'

/** Cases with deletions at any time, and failures of the clean-up. */
export function deletionCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): Guarantee<T, Outside>[] {
  const outages = Object.entries(lifecycles.subject.outages ?? {})
  return [
    {
      name: 'it cleans up after an object that is deleted before or after any of its calls',
      async variants() {
        const { points } = await lifecycles.baseline('one')
        const converging = points.filter(({ phase }) => phase === 'converging')
        return converging.flatMap(point => [
          deletedAt<T, Outside>(point, 'before'),
          deletedAt<T, Outside>(point, 'after'),
        ])
      },
    },
    {
      name: 'it makes no dependents for an object that is being deleted',
      variants: async () => [dependentsDeleted<T, Outside>()],
    },
    ...(outages.length === 0
      ? []
      : [
          {
            name: 'it keeps its finalizer while clean-up fails, and completes the work after an outage',
            variants: async () =>
              outages.flatMap(([name, begin]) => [
                outageAtDeletion(lifecycles, name, begin),
                outageAtCreation(lifecycles, name, begin),
              ]),
          },
        ]),
  ]
}

function deletedAt<T extends ApiObject, Outside>(
  point: CallPoint,
  moment: 'before' | 'after',
): Variant<T, Outside> {
  return {
    after: `after the object was deleted ${placeOf(point, moment)}`,
    when: `the object is deleted ${moment} ${point.call}`,
    baseline: 'one',
    async run(scenario, { gone }) {
      let deletion: Promise<void> | undefined
      const remove = () => {
        deletion ??= scenario.deleteAll()
        return deletion
      }
      const disturb: Disturb = async (_call, carryOut) => {
        if (moment === 'before') await remove()
        const response = await carryOut()
        if (moment === 'after') await remove()
        return response
      }
      await scenario.create()
      await scenario.start({ disturb: atCall(point, disturb) })
      await scenario.reached(() => deletion !== undefined)
      await remove()
      await scenario.gone(gone)
    },
  }
}

/**
 * As in a deletion with `propagationPolicy=Foreground`: the object stays, and its dependents are deleted. Here another
 * writer's finalizer keeps the object, so that the reconciler has seen the deletion before a dependent goes. With the
 * policy alone, one with a correct check could still see the two in the other order.
 */
function dependentsDeleted<T extends ApiObject, Outside>(): Variant<T, Outside> {
  return {
    after: 'after the object and its dependents were deleted',
    when: 'its dependents are deleted while the object is being deleted',
    baseline: 'one',
    async run(scenario, { gone }) {
      const dependents = new Dependents(() => scenario.object.metadata.uid)
      await scenario.create()
      await scenario.start({ disturb: dependents.observe })
      await scenario.converged()
      await addFinalizer(scenario, othersFinalizer)
      await scenario.deleteAll()
      await scenario.reached(() => false)
      const { length } = dependents.made
      scenario.timeline.note('its dependents are deleted', true)
      for (const { path } of dependents.made) await scenario.transport.request({ method: 'DELETE', path })
      await scenario.reached(() => dependents.made.length > length)
      const again = dependents.made[length]
      if (again !== undefined) {
        throw new Finding(
          `it went on ${again.action(scenario.models)}`,
          `${again.path} was made for an object that is being deleted: without \`finalize\`, a reconciler is called for such objects too, and must do nothing if \`metadata.deletionTimestamp\` is set`,
        )
      }
      await removeFinalizer(scenario, othersFinalizer)
      await scenario.gone(gone)
    },
  }
}

function outageAtDeletion<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
  name: string,
  begin: Outage<Outside>,
): Variant<T, Outside> {
  return {
    after: `after a deletion during the outage "${name}"`,
    when: `the object is deleted during the outage "${name}"`,
    baseline: 'one',
    async run(scenario, { gone }) {
      const { model } = lifecycles.subject
      await scenario.create()
      await scenario.start()
      await scenario.converged()
      const { process, client } = scenario
      const runs = process.failed(model.plural) + process.succeeded(model.plural)
      scenario.timeline.note(`the outage "${name}" begins`, true)
      const end = await begin(scenario.outside)
      await scenario.deleteAll()
      let isGone = false
      // Until it has tried to clean up.
      await scenario.reached(async () => {
        isGone = (await client.getIfExists(model, objectKey(scenario.object.metadata))) === undefined
        return isGone || process.failed(model.plural) + process.succeeded(model.plural) > runs
      })
      // The clean-up may not be affected by the outage.
      if (isGone) {
        await scenario.cleanedUp().catch(cause => {
          throw new Finding(
            'it removed its finalizer before the clean-up was done',
            'the object was removed before its clean-up was done: its finalizer was removed too early',
            { cause },
          )
        })
      }
      scenario.timeline.note('the outage ends')
      await end()
      await scenario.gone(gone)
    },
  }
}

function outageAtCreation<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
  name: string,
  begin: Outage<Outside>,
): Variant<T, Outside> {
  return {
    after: `after a creation during the outage "${name}"`,
    when: `the object is created during the outage "${name}"`,
    baseline: 'one',
    async run(scenario, { converged, gone }) {
      const { model } = lifecycles.subject
      scenario.timeline.note(`the outage "${name}" begins`, true)
      const end = await begin(scenario.outside)
      await scenario.create()
      await scenario.start()
      // Until it has tried to converge.
      const { process } = scenario
      await scenario.reached(() => process.failed(model.plural) + process.succeeded(model.plural) > 1)
      scenario.timeline.note('the outage ends')
      await end()
      await scenario.converged(converged)
      await scenario.deleteAll()
      await scenario.gone(gone)
    },
  }
}
