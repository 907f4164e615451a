import type { ApiObject } from '../../api/object.ts'
import { TransportError } from '../../client/transport.ts'
import { atCall, type CallPoint, disturbed, type Lifecycles, placeOf } from './lifecycles.ts'
import type { Disturb } from './process-transport.ts'
import { conformanceDefaults } from './reconciler-under-test.ts'
import type { Guarantee, Variant } from './variants.ts'

type Moment = 'before' | 'after'
const moments: readonly Moment[] = ['before', 'after']

/** Kills the process before or after a call. */
function die(moment: Moment): Disturb {
  return async (call, carryOut, kill) => {
    call.isDisturbed = true
    if (moment === 'after') await carryOut()
    kill()
    throw new TransportError('the process is dead')
  }
}

const dieAt = (point: CallPoint, moment: Moment) => atCall(point, die(moment))

/** Cases with crashes between two calls of a process: Sieve's "intermediate states" (OSDI 2022). */
export function crashCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): Guarantee<T, Outside>[] {
  return [
    {
      name: 'it reaches the same state after a crash before or after any of its calls',
      async variants() {
        const { points } = await lifecycles.baseline('one')
        return points.flatMap(point =>
          moments.map(moment => ({
            after: `after a crash ${placeOf(point, moment)}`,
            when: `it dies ${moment} ${point.call}`,
            baseline: 'one' as const,
            run: (scenario, expected) => disturbed(scenario, expected, dieAt(point, moment)),
          })),
        )
      },
    },
    {
      name: 'it cleans up after an object that is deleted while it is down, wherever it crashed',
      async variants() {
        const { points } = await lifecycles.baseline('one')
        const variants: Variant<T, Outside>[] = points
          .filter(({ phase }) => phase === 'converging')
          .flatMap(point =>
            moments.map(moment => ({
              after: `after a crash ${placeOf(point, moment)}, and a deletion while it was down`,
              when: `it dies ${moment} ${point.call}, and the object is deleted before it is back`,
              baseline: 'one' as const,
              async run(scenario, { gone }) {
                await scenario.create()
                await scenario.start({ disturb: dieAt(point, moment) })
                await scenario.reached(() => scenario.process.isDead)
                scenario.kill()
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
    async run(scenario, { converged, gone }) {
      let deaths = 0
      // 1, 2, 1, 2, 3, 1, 2, 3, 4: some die at once, some later, and at last one survives.
      const next = () => {
        deaths++
        if (deaths > conformanceDefaults.deaths) return {}
        const number = 1 + (deaths % (1 + Math.ceil(Math.sqrt(deaths))))
        const dies = die(deaths % 2 === 0 ? 'before' : 'after')
        const disturb: Disturb = (call, carryOut, kill) =>
          call.number === number ? dies(call, carryOut, kill) : carryOut()
        return { disturb }
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
