import type { ApiObject } from '../../api/object.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { ConformanceError } from './conformance-error.ts'
import { atCall, type Lives, runVariants, type Variant } from './lives.ts'
import { addFinalizer, othersDomain, removeFinalizer } from './others.ts'
import { type Disturb, describeCall } from './process-transport.ts'
import { Stage } from './stage.ts'

/** An object may be deleted at any time, others may hold it, and what is to be cleaned up may be out of reach. */
export function deletionCases<T extends ApiObject, Outside>(lives: Lives<T, Outside>): ConformanceCase[] {
  const outages = Object.entries(lives.subject.outages ?? {})
  return [
    {
      name: 'it cleans up after an object that is deleted between any two of its calls',
      async run() {
        const { calls } = await lives.one()
        const converging = calls.filter(({ phase }) => phase === 'converging')
        await runVariants(
          this.name,
          converging.flatMap(({ number, ...call }) => [
            deletedAt(lives, number, 'before', describeCall({ number, ...call })),
            deletedAt(lives, number, 'after', describeCall({ number, ...call })),
          ]),
        )
      },
    },
    {
      name: 'it follows what has happened while it was disconnected, deletion included',
      run() {
        return runVariants(this.name, [disconnected(lives, false), disconnected(lives, true)])
      },
    },
    {
      name: "it leaves others' finalizers alone, in their order, and cleans up although they keep the object",
      run() {
        return runVariants(this.name, [held(lives)])
      },
    },
    ...(outages.length === 0
      ? []
      : [
          {
            name: 'it keeps its finalizer while clean-up fails, and ends what an outage has interrupted',
            run() {
              return runVariants(
                this.name,
                outages.flatMap(([name, begin]) => [
                  outageAtDeletion(lives, name, begin),
                  outageAtCreation(lives, name, begin),
                ]),
              )
            },
          },
        ]),
  ]
}

function deletedAt<T extends ApiObject, Outside>(
  lives: Lives<T, Outside>,
  number: number,
  moment: 'before' | 'after',
  call: string,
): Variant {
  return {
    when: `the object is deleted ${moment} ${call}`,
    async run() {
      const { gone } = await lives.one()
      await using stage = await Stage.open(lives.subject)
      let deleted = false
      const remove: Disturb = async (_call, carryOut) => {
        if (moment === 'before') await stage.deleteAll()
        const answer = await carryOut()
        if (moment === 'after') await stage.deleteAll()
        deleted = true
        return answer
      }
      await stage.create()
      await stage.start({ disturb: atCall(number, remove) })
      await stage.until(`${call} is made`, () => deleted)
      await stage.gone()
      await stage.expectWorld(gone)
    },
  }
}

function disconnected<T extends ApiObject, Outside>(lives: Lives<T, Outside>, deleted: boolean): Variant {
  return {
    when: deleted
      ? 'the object is deleted while it is disconnected'
      : 'it starts without a server, and the object is changed while it is disconnected',
    async run() {
      const { converged, gone } = await lives.edited()
      await using stage = await Stage.open(lives.subject)
      await stage.create()
      await stage.start({ disconnected: true })
      stage.process.transport.reconnect()
      await stage.converged()
      stage.process.transport.disconnect()
      for (const edit of lives.edits(stage.outside)) await edit(stage)
      if (deleted) await stage.deleteAll()
      stage.process.transport.reconnect()
      if (!deleted) {
        await stage.converged()
        await stage.expectWorld(converged)
        await stage.deleteAll()
      }
      await stage.gone()
      await stage.expectWorld(gone)
    },
  }
}

function held<T extends ApiObject, Outside>(lives: Lives<T, Outside>): Variant {
  const first = `${othersDomain}/first`
  const others = [first, `${othersDomain}/second`, `${othersDomain}/third`]
  return {
    when: "others' finalizers are on the object before and after its own",
    async run() {
      const { gone } = await lives.one()
      await using stage = await Stage.open(lives.subject)
      await stage.create()
      await addFinalizer(stage, first, 'first')
      await stage.start()
      await stage.converged()
      for (const name of others) await addFinalizer(stage, name, 'last')
      await stage.converged()
      const { finalizers: all = [] } = (await stage.look()).metadata
      await stage.deleteAll()
      await stage.until("only others' finalizers are left", async () => {
        const live = await stage.client.getIfExists(lives.subject.model, stage.object.metadata.name)
        const left = live?.metadata.finalizers ?? []
        const missing = others.find(name => !left.includes(name))
        if (missing !== undefined)
          throw new ConformanceError(`it has removed ${missing}, which is not its own`)
        return left.length === others.length && (await stage.isQuiet())
      })
      const { finalizers: left } = (await stage.look()).metadata
      if (`${left}` !== `${others}`) {
        throw new ConformanceError(`it has changed the order of others' finalizers to [${left}]`)
      }
      // One that has no finalizer leaves its clean-up to the collector, which waits for the object to go.
      if (all.length > others.length) await stage.cleanedUp()
      for (const name of others) await removeFinalizer(stage, name)
      await stage.gone()
      await stage.expectWorld(gone)
    },
  }
}

function outageAtDeletion<T extends ApiObject, Outside>(
  lives: Lives<T, Outside>,
  name: string,
  begin: (outside: Outside) => () => void | Promise<void>,
): Variant {
  return {
    when: `the object is deleted during the outage "${name}"`,
    async run() {
      const { gone } = await lives.one()
      const { model } = lives.subject
      await using stage = await Stage.open(lives.subject)
      await stage.create()
      await stage.start()
      await stage.converged()
      const { process, client } = stage
      const runs = process.failed(model.plural) + process.succeeded(model.plural)
      const end = begin(stage.outside)
      await stage.deleteAll()
      let isGone = false
      await stage.until('it has tried to clean up', async () => {
        isGone = (await client.getIfExists(model, stage.object.metadata.name)) === undefined
        return isGone || process.failed(model.plural) + process.succeeded(model.plural) > runs
      })
      // Perhaps the outage is none for the clean-up.
      if (isGone) {
        await stage.cleanedUp().catch(cause => {
          throw new ConformanceError(
            'the object has gone, although what it had to clean up is still there: its finalizer was taken away too early',
            { cause },
          )
        })
      }
      await end()
      await stage.gone()
      await stage.expectWorld(gone)
    },
  }
}

function outageAtCreation<T extends ApiObject, Outside>(
  lives: Lives<T, Outside>,
  name: string,
  begin: (outside: Outside) => () => void | Promise<void>,
): Variant {
  return {
    when: `the object is created during the outage "${name}"`,
    async run() {
      const { converged, gone } = await lives.one()
      const { model } = lives.subject
      await using stage = await Stage.open(lives.subject)
      const end = begin(stage.outside)
      await stage.create()
      await stage.start()
      await stage.until('it has tried', () => {
        return stage.process.failed(model.plural) + stage.process.succeeded(model.plural) > 1
      })
      await end()
      await stage.converged()
      await stage.expectWorld(converged)
      await stage.deleteAll()
      await stage.gone()
      await stage.expectWorld(gone)
    },
  }
}
