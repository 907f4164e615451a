import type { ApiObject } from '../../api/object.ts'
import { TransportError } from '../../client/transport.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { atCall, type Lifecycles, runVariants, type Variant } from './lifecycles.ts'
import { type Disturb, describeCall } from './process-transport.ts'
import { Scenario } from './scenario.ts'

type Moment = 'before' | 'after'
const moments: readonly Moment[] = ['before', 'after']

/** Kills the process before or after its call of this number. */
function dieAt(number: number, moment: Moment): Disturb {
  return atCall(number, async (_call, carryOut, kill) => {
    if (moment === 'after') await carryOut()
    kill()
    throw new TransportError('the process is dead')
  })
}

/** Cases in which the process crashes between two of its calls: Sieve's "intermediate states" (OSDI 2022). */
export function crashCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): ConformanceCase[] {
  return [
    {
      name: 'it reaches the same state after a crash before or after any of its calls',
      async run() {
        const { calls } = await lifecycles.one()
        const variants = calls.flatMap(call =>
          moments.map(moment => ({
            when: `it dies ${moment} ${describeCall(call)}`,
            run: () => lifecycles.disturbed(() => dieAt(call.number, moment)),
          })),
        )
        await runVariants(this.name, variants)
      },
    },
    {
      name: 'it cleans up after an object that is deleted while it is down, wherever it crashed',
      async run() {
        const { calls, gone } = await lifecycles.one()
        const converging = calls.filter(({ phase }) => phase === 'converging')
        const variants: Variant[] = converging.flatMap(call =>
          moments.map(moment => ({
            when: `it dies ${moment} ${describeCall(call)}, and the object is deleted before it is back`,
            async run() {
              await using scenario = await Scenario.open(lifecycles.subject)
              await scenario.create()
              await scenario.start({ disturb: dieAt(call.number, moment) })
              await scenario.died()
              await scenario.deleteAll()
              await scenario.start()
              await scenario.gone()
              await scenario.expectSnapshot(gone)
            },
          })),
        )
        variants.push({
          when: 'it is stopped after the work is done, and the object is deleted before it is back',
          async run() {
            await using scenario = await Scenario.open(lifecycles.subject)
            await scenario.create()
            await scenario.start()
            await scenario.converged()
            scenario.kill()
            await scenario.deleteAll()
            await scenario.start()
            await scenario.gone()
            await scenario.expectSnapshot(gone)
          },
        })
        await runVariants(this.name, variants)
      },
    },
    {
      name: 'it converges all objects despite many crashes',
      async run() {
        const { calls, converged, gone } = await lifecycles.all()
        await runVariants(this.name, [
          {
            when: 'each of many processes dies at one of its first calls',
            async run() {
              await using scenario = await Scenario.open(lifecycles.subject)
              let deaths = 0
              // 1, 2, 1, 2, 3, 1, 2, 3, 4: some die at once, some later, and at last one survives.
              const next = () => {
                deaths++
                if (deaths > 3 * calls.length) return {}
                const number = 1 + (deaths % (1 + Math.ceil(Math.sqrt(deaths))))
                return { disturb: dieAt(number, deaths % 2 === 0 ? 'before' : 'after') }
              }
              scenario.restartWith(next)
              await scenario.create(true)
              await scenario.start(next())
              await scenario.converged()
              await scenario.expectSnapshot(converged)
              deaths = 0
              scenario.kill()
              await scenario.deleteAll()
              await scenario.gone()
              await scenario.expectSnapshot(gone)
            },
          },
        ])
      },
    },
  ]
}
