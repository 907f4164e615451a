import type { ApiObject } from '../../api/object.ts'
import { objectKey } from '../../api/object-key.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { Finding } from './finding.ts'
import { atCall, type CallPoint, type Lifecycles, placeOf } from './lifecycles.ts'
import { addFinalizer, othersDomain, removeFinalizer } from './other-writers.ts'
import { type Disturb, describeCall } from './process-transport.ts'
import { runVariants, type Variant } from './variants.ts'

/** Cases with deletions at any time, other finalizers, and failures of the clean-up. */
export function deletionCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): ConformanceCase[] {
  const outages = Object.entries(lifecycles.subject.outages ?? {})
  return [
    {
      name: 'it cleans up after an object that is deleted before or after any of its calls',
      run() {
        return runVariants(this.name, lifecycles, async baseline => {
          const { calls } = await baseline('one')
          const converging = calls.filter(({ phase }) => phase === 'converging')
          return converging.flatMap(call => [
            deletedAt<T, Outside>(calls, call, 'before'),
            deletedAt<T, Outside>(calls, call, 'after'),
          ])
        })
      },
    },
    {
      name: 'it handles changes and deletions that happen while it is disconnected',
      run() {
        return runVariants(this.name, lifecycles, async () => [
          disconnected(lifecycles, false),
          disconnected(lifecycles, true),
        ])
      },
    },
    {
      name: "it keeps others' finalizers in their order, and cleans up although they delay the removal",
      run() {
        return runVariants(this.name, lifecycles, async () => [held(lifecycles)])
      },
    },
    ...(outages.length === 0
      ? []
      : [
          {
            name: 'it keeps its finalizer while clean-up fails, and completes the work after an outage',
            run() {
              return runVariants(this.name, lifecycles, async () =>
                outages.flatMap(([name, begin]) => [
                  outageAtDeletion(lifecycles, name, begin),
                  outageAtCreation(lifecycles, name, begin),
                ]),
              )
            },
          },
        ]),
  ]
}

function deletedAt<T extends ApiObject, Outside>(
  calls: readonly CallPoint[],
  point: CallPoint,
  moment: 'before' | 'after',
): Variant<T, Outside> {
  const call = describeCall(point)
  return {
    after: `after the object was deleted ${placeOf(calls, point, moment)}`,
    when: `the object is deleted ${moment} ${call}`,
    baseline: 'one',
    async run(scenario, { gone }) {
      let deleted = false
      const remove: Disturb = async (_call, carryOut) => {
        if (moment === 'before') await scenario.deleteAll()
        const response = await carryOut()
        if (moment === 'after') await scenario.deleteAll()
        deleted = true
        return response
      }
      await scenario.create()
      await scenario.start({ disturb: atCall(point.number, remove) })
      await scenario.until(`${call} is made`, () => deleted)
      await scenario.gone(gone)
    },
  }
}

function disconnected<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
  deleted: boolean,
): Variant<T, Outside> {
  return {
    after: deleted ? 'after a deletion while it was disconnected' : 'after changes while it was disconnected',
    when: deleted
      ? 'the object is deleted while it is disconnected'
      : 'it starts without a server, and the object is changed while it is disconnected',
    baseline: 'edited',
    async run(scenario, { converged, gone }) {
      await scenario.create()
      await scenario.start({ disconnected: true })
      scenario.process.transport.reconnect()
      await scenario.converged()
      scenario.timeline.note('the process is disconnected', true)
      scenario.process.transport.disconnect()
      for (const edit of lifecycles.edits(scenario.outside)) await edit(scenario)
      if (deleted) await scenario.deleteAll()
      scenario.timeline.note('the process is reconnected')
      scenario.process.transport.reconnect()
      if (!deleted) {
        await scenario.converged(converged)
        await scenario.deleteAll()
      }
      await scenario.gone(gone)
    },
  }
}

function held<T extends ApiObject, Outside>(lifecycles: Lifecycles<T, Outside>): Variant<T, Outside> {
  const first = `${othersDomain}/first`
  const others = [first, `${othersDomain}/second`, `${othersDomain}/third`]
  return {
    after: "with others' finalizers on the object",
    when: "others' finalizers are on the object before and after its own",
    baseline: 'one',
    async run(scenario, { gone }) {
      await scenario.create()
      await addFinalizer(scenario, first, 'first')
      await scenario.start()
      await scenario.converged()
      for (const name of others) await addFinalizer(scenario, name, 'last')
      await scenario.converged()
      const { finalizers: all = [] } = (await scenario.look()).metadata
      await scenario.deleteAll()
      await scenario.until('only the finalizers of others are left', async () => {
        const live = await scenario.client.getIfExists(
          lifecycles.subject.model,
          objectKey(scenario.object.metadata),
        )
        const left = live?.metadata.finalizers ?? []
        const missing = others.find(name => !left.includes(name))
        if (missing !== undefined)
          throw new Finding(`it removed the finalizer ${missing}, which is not its own`)
        return left.length === others.length && (await scenario.isQuiet())
      })
      const { finalizers: left } = (await scenario.look()).metadata
      if (`${left}` !== `${others}`) {
        throw new Finding(`it changed the order of others' finalizers to [${left}]`)
      }
      // Without a finalizer, the clean-up is done by the garbage collector after the removal.
      if (all.length > others.length) await scenario.cleanedUp()
      for (const name of others) await removeFinalizer(scenario, name)
      await scenario.gone(gone)
    },
  }
}

function outageAtDeletion<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
  name: string,
  begin: (outside: Outside) => () => void | Promise<void>,
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
      const end = begin(scenario.outside)
      await scenario.deleteAll()
      let isGone = false
      await scenario.until('it has tried to clean up', async () => {
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
  begin: (outside: Outside) => () => void | Promise<void>,
): Variant<T, Outside> {
  return {
    after: `after a creation during the outage "${name}"`,
    when: `the object is created during the outage "${name}"`,
    baseline: 'one',
    async run(scenario, { converged, gone }) {
      const { model } = lifecycles.subject
      scenario.timeline.note(`the outage "${name}" begins`, true)
      const end = begin(scenario.outside)
      await scenario.create()
      await scenario.start()
      await scenario.until('it has tried to converge', () => {
        return scenario.process.failed(model.plural) + scenario.process.succeeded(model.plural) > 1
      })
      scenario.timeline.note('the outage ends')
      await end()
      await scenario.converged(converged)
      await scenario.deleteAll()
      await scenario.gone(gone)
    },
  }
}
