import type { ApiObject } from '../../api/object.ts'
import { TransportError } from '../../client/transport.ts'
import { atCall, disturbed, type Lifecycles, placeOf } from './lifecycles.ts'
import { type Disturb, describeCall } from './process-transport.ts'
import type { Guarantee, Variant } from './variants.ts'

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

/** Cases with crashes between two calls of a process: Sieve's "intermediate states" (OSDI 2022). */
export function crashCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): Guarantee<T, Outside>[] {
  return [
    {
      name: 'it reaches the same state after a crash before or after any of its calls',
      async variants() {
        const { calls } = await lifecycles.baseline('one')
        return calls.flatMap(call =>
          moments.map(moment => ({
            after: `after a crash ${placeOf(calls, call, moment)}`,
            when: `it dies ${moment} ${describeCall(call)}`,
            baseline: 'one' as const,
            run: (scenario, expected) => disturbed(scenario, expected, dieAt(call.number, moment)),
          })),
        )
      },
    },
    {
      name: 'it cleans up after an object that is deleted while it is down, wherever it crashed',
      async variants() {
        const { calls } = await lifecycles.baseline('one')
        const variants: Variant<T, Outside>[] = calls
          .filter(({ phase }) => phase === 'converging')
          .flatMap(call =>
            moments.map(moment => ({
              after: `after a crash ${placeOf(calls, call, moment)}, and a deletion while it was down`,
              when: `it dies ${moment} ${describeCall(call)}, and the object is deleted before it is back`,
              baseline: 'one' as const,
              async run(scenario, { gone }) {
                await scenario.create()
                await scenario.start({ disturb: dieAt(call.number, moment) })
                await scenario.died()
                await scenario.deleteAll()
                await scenario.start()
                await scenario.gone(gone)
              },
            })),
          )
        variants.push({
          after: 'after a deletion while it was down',
          when: 'it is stopped after the work is done, and the object is deleted before it is back',
          baseline: 'one',
          async run(scenario, { gone }) {
            await scenario.create()
            await scenario.start()
            await scenario.converged()
            scenario.kill()
            await scenario.deleteAll()
            await scenario.start()
            await scenario.gone(gone)
          },
        })
        return variants
      },
    },
    {
      name: 'it converges all objects despite many crashes',
      variants: async () => [manyCrashes()],
    },
  ]
}

function manyCrashes<T extends ApiObject, Outside>(): Variant<T, Outside> {
  return {
    after: 'after many crashes',
    when: 'each of many processes dies at one of its first calls',
    baseline: 'all',
    async run(scenario, { calls, converged, gone }) {
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
      await scenario.converged(converged)
      deaths = 0
      scenario.kill()
      await scenario.deleteAll()
      await scenario.gone(gone)
    },
  }
}
