import type { ApiObject } from '../../api/object.ts'
import { TransportError } from '../../client/transport.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { atCall, type Lives, runVariants, type Variant } from './lives.ts'
import { type Disturb, describeCall } from './process-transport.ts'
import { Stage } from './stage.ts'

type Moment = 'before' | 'after'
const moments: readonly Moment[] = ['before', 'after']

/** The process dies at its call of this number: nothing of it happens any more. */
function dieAt(number: number, moment: Moment): Disturb {
  return atCall(number, async (_call, carryOut, kill) => {
    if (moment === 'after') await carryOut()
    kill()
    throw new TransportError('nobody hears the answer')
  })
}

/** A process that dies may do so between any two of its calls. As Sieve's "intermediate states" (OSDI 2022). */
export function crashCases<T extends ApiObject, Outside>(lives: Lives<T, Outside>): ConformanceCase[] {
  return [
    {
      name: 'it comes to the same state after a crash before or after any of its calls',
      async run() {
        const { calls } = await lives.one()
        const variants = calls.flatMap(call =>
          moments.map(moment => ({
            when: `it dies ${moment} ${describeCall(call)}`,
            run: () => lives.disturbed(() => dieAt(call.number, moment)),
          })),
        )
        await runVariants(this.name, variants)
      },
    },
    {
      name: 'it cleans up after an object that is deleted while it is down, wherever it had crashed',
      async run() {
        const { calls, gone } = await lives.one()
        const converging = calls.filter(({ phase }) => phase === 'converging')
        const variants: Variant[] = converging.flatMap(call =>
          moments.map(moment => ({
            when: `it dies ${moment} ${describeCall(call)}, and the object is deleted before it is back`,
            async run() {
              await using stage = await Stage.open(lives.subject)
              await stage.create()
              await stage.start({ disturb: dieAt(call.number, moment) })
              await stage.died()
              await stage.deleteAll()
              await stage.start()
              await stage.gone()
              await stage.expectWorld(gone)
            },
          })),
        )
        variants.push({
          when: 'it is stopped after the work is done, and the object is deleted before it is back',
          async run() {
            await using stage = await Stage.open(lives.subject)
            await stage.create()
            await stage.start()
            await stage.converged()
            stage.kill()
            await stage.deleteAll()
            await stage.start()
            await stage.gone()
            await stage.expectWorld(gone)
          },
        })
        await runVariants(this.name, variants)
      },
    },
    {
      name: 'it gets through a storm of restarts, with all objects',
      async run() {
        const { calls, converged, gone } = await lives.all()
        await runVariants(this.name, [
          {
            when: 'each of many processes dies at one of its first calls',
            async run() {
              await using stage = await Stage.open(lives.subject)
              let deaths = 0
              // 1, 2, 1, 2, 3, 1, 2, 3, 4: some die at once, some get on a little, and at last one is left alone.
              const next = () => {
                deaths++
                if (deaths > 3 * calls.length) return {}
                const number = 1 + (deaths % (1 + Math.ceil(Math.sqrt(deaths))))
                return { disturb: dieAt(number, deaths % 2 === 0 ? 'before' : 'after') }
              }
              stage.restartWith(next)
              await stage.create(true)
              await stage.start(next())
              await stage.converged()
              await stage.expectWorld(converged)
              deaths = 0
              stage.kill()
              await stage.deleteAll()
              await stage.gone()
              await stage.expectWorld(gone)
            },
          },
        ])
      },
    },
  ]
}
