import type { ApiObject } from '../../api/object.ts'
import type { Lifecycles } from './lifecycles.ts'
import type { Guarantee, Variant } from './variants.ts'

/** Ms of the controllers' clock for a process to act on a stale cache. */
const staleMs = 1_200

/** Cases with a stale cache, and with states that are never observed. */
export function stalenessCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): Guarantee<T, Outside>[] {
  return [
    {
      name: 'it converges although its cache lags behind',
      variants: async () => [
        behind(lifecycles, 'its cache shows every change late, one by one', false),
        behind(lifecycles, 'its cache shows every change late, one by one, and the deletion last', true),
      ],
    },
    {
      name: 'it converges although it sees only the last of several changes',
      variants: async () => [skipped(lifecycles, true), skipped(lifecycles, false)],
    },
  ]
}

function behind<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
  when: string,
  deleted: boolean,
): Variant<T, Outside> {
  return {
    after: 'with a cache that lags behind',
    when,
    baseline: 'edited',
    async run(scenario, { converged, gone }) {
      await scenario.create()
      await scenario.start()
      await scenario.converged()
      const { transport } = scenario.process
      scenario.timeline.note('its watches are held back', true)
      transport.hold()
      for (const edit of lifecycles.edits(scenario.outside)) await edit(scenario)
      if (deleted) await scenario.deleteAll()
      await scenario.rest(staleMs)
      while (transport.heldEvents > 0) {
        transport.releaseOne()
        await scenario.rest(staleMs)
      }
      transport.release()
      if (!deleted) {
        await scenario.converged(converged)
        await scenario.deleteAll()
      }
      await scenario.gone(gone)
    },
  }
}

function skipped<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
  running: boolean,
): Variant<T, Outside> {
  return {
    after: 'after several changes of which it saw only the last',
    when: running
      ? 'the object is changed several times in quick succession'
      : 'the object is changed several times while it is down',
    baseline: 'edited',
    async run(scenario, { converged, gone }) {
      await scenario.create()
      await scenario.start()
      await scenario.converged()
      if (!running) scenario.kill()
      for (const edit of lifecycles.edits(scenario.outside)) await edit(scenario)
      if (!running) await scenario.start()
      await scenario.converged(converged)
      await scenario.deleteAll()
      await scenario.gone(gone)
    },
  }
}
