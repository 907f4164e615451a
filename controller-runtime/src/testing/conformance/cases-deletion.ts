import type { ApiObject } from '../../api/object.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { ConformanceError } from './conformance-error.ts'
import { atCall, type Lifecycles, runVariants, type Variant } from './lifecycles.ts'
import { addFinalizer, othersDomain, removeFinalizer } from './other-writers.ts'
import { type Disturb, describeCall } from './process-transport.ts'
import { Scenario } from './scenario.ts'

/** Cases with deletions at any time, other finalizers, and failures of the clean-up. */
export function deletionCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): ConformanceCase[] {
  const outages = Object.entries(lifecycles.subject.outages ?? {})
  return [
    {
      name: 'it cleans up after an object that is deleted before or after any of its calls',
      async run() {
        const { calls } = await lifecycles.one()
        const converging = calls.filter(({ phase }) => phase === 'converging')
        await runVariants(
          this.name,
          converging.flatMap(({ number, ...call }) => [
            deletedAt(lifecycles, number, 'before', describeCall({ number, ...call })),
            deletedAt(lifecycles, number, 'after', describeCall({ number, ...call })),
          ]),
        )
      },
    },
    {
      name: 'it handles changes and deletions that happen while it is disconnected',
      run() {
        return runVariants(this.name, [disconnected(lifecycles, false), disconnected(lifecycles, true)])
      },
    },
    {
      name: "it keeps others' finalizers in their order, and cleans up although they delay the removal",
      run() {
        return runVariants(this.name, [held(lifecycles)])
      },
    },
    ...(outages.length === 0
      ? []
      : [
          {
            name: 'it keeps its finalizer while clean-up fails, and completes the work after an outage',
            run() {
              return runVariants(
                this.name,
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
  lifecycles: Lifecycles<T, Outside>,
  number: number,
  moment: 'before' | 'after',
  call: string,
): Variant {
  return {
    when: `the object is deleted ${moment} ${call}`,
    async run() {
      const { gone } = await lifecycles.one()
      await using scenario = await Scenario.open(lifecycles.subject)
      let deleted = false
      const remove: Disturb = async (_call, carryOut) => {
        if (moment === 'before') await scenario.deleteAll()
        const response = await carryOut()
        if (moment === 'after') await scenario.deleteAll()
        deleted = true
        return response
      }
      await scenario.create()
      await scenario.start({ disturb: atCall(number, remove) })
      await scenario.until(`${call} is made`, () => deleted)
      await scenario.gone()
      await scenario.expectSnapshot(gone)
    },
  }
}

function disconnected<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
  deleted: boolean,
): Variant {
  return {
    when: deleted
      ? 'the object is deleted while it is disconnected'
      : 'it starts without a server, and the object is changed while it is disconnected',
    async run() {
      const { converged, gone } = await lifecycles.edited()
      await using scenario = await Scenario.open(lifecycles.subject)
      await scenario.create()
      await scenario.start({ disconnected: true })
      scenario.process.transport.reconnect()
      await scenario.converged()
      scenario.process.transport.disconnect()
      for (const edit of lifecycles.edits(scenario.outside)) await edit(scenario)
      if (deleted) await scenario.deleteAll()
      scenario.process.transport.reconnect()
      if (!deleted) {
        await scenario.converged()
        await scenario.expectSnapshot(converged)
        await scenario.deleteAll()
      }
      await scenario.gone()
      await scenario.expectSnapshot(gone)
    },
  }
}

function held<T extends ApiObject, Outside>(lifecycles: Lifecycles<T, Outside>): Variant {
  const first = `${othersDomain}/first`
  const others = [first, `${othersDomain}/second`, `${othersDomain}/third`]
  return {
    when: "others' finalizers are on the object before and after its own",
    async run() {
      const { gone } = await lifecycles.one()
      await using scenario = await Scenario.open(lifecycles.subject)
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
          scenario.object.metadata.name,
        )
        const left = live?.metadata.finalizers ?? []
        const missing = others.find(name => !left.includes(name))
        if (missing !== undefined)
          throw new ConformanceError(`it has removed the finalizer ${missing}, which is not its own`)
        return left.length === others.length && (await scenario.isQuiet())
      })
      const { finalizers: left } = (await scenario.look()).metadata
      if (`${left}` !== `${others}`) {
        throw new ConformanceError(`it has changed the order of others' finalizers to [${left}]`)
      }
      // Without a finalizer, the clean-up is done by the garbage collector after the removal.
      if (all.length > others.length) await scenario.cleanedUp()
      for (const name of others) await removeFinalizer(scenario, name)
      await scenario.gone()
      await scenario.expectSnapshot(gone)
    },
  }
}

function outageAtDeletion<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
  name: string,
  begin: (outside: Outside) => () => void | Promise<void>,
): Variant {
  return {
    when: `the object is deleted during the outage "${name}"`,
    async run() {
      const { gone } = await lifecycles.one()
      const { model } = lifecycles.subject
      await using scenario = await Scenario.open(lifecycles.subject)
      await scenario.create()
      await scenario.start()
      await scenario.converged()
      const { process, client } = scenario
      const runs = process.failed(model.plural) + process.succeeded(model.plural)
      const end = begin(scenario.outside)
      await scenario.deleteAll()
      let isGone = false
      await scenario.until('it has tried to clean up', async () => {
        isGone = (await client.getIfExists(model, scenario.object.metadata.name)) === undefined
        return isGone || process.failed(model.plural) + process.succeeded(model.plural) > runs
      })
      // The clean-up may not be affected by the outage.
      if (isGone) {
        await scenario.cleanedUp().catch(cause => {
          throw new ConformanceError(
            'the object was removed before its clean-up was done: its finalizer was removed too early',
            { cause },
          )
        })
      }
      await end()
      await scenario.gone()
      await scenario.expectSnapshot(gone)
    },
  }
}

function outageAtCreation<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
  name: string,
  begin: (outside: Outside) => () => void | Promise<void>,
): Variant {
  return {
    when: `the object is created during the outage "${name}"`,
    async run() {
      const { converged, gone } = await lifecycles.one()
      const { model } = lifecycles.subject
      await using scenario = await Scenario.open(lifecycles.subject)
      const end = begin(scenario.outside)
      await scenario.create()
      await scenario.start()
      await scenario.until('it has tried to converge', () => {
        return scenario.process.failed(model.plural) + scenario.process.succeeded(model.plural) > 1
      })
      await end()
      await scenario.converged()
      await scenario.expectSnapshot(converged)
      await scenario.deleteAll()
      await scenario.gone()
      await scenario.expectSnapshot(gone)
    },
  }
}
