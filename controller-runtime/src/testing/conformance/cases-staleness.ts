import type { ApiObject } from '../../api/object.ts'
import { objectKey } from '../../api/object-key.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { History } from './history.ts'
import type { Lifecycles } from './lifecycles.ts'
import { runVariants, type Variant } from './variants.ts'

/** Ms of the controllers' clock for a process to act on a stale cache. */
const staleMs = 1_200

/** Cases with a stale cache, with a much older one after a restart, and with states that are never observed. */
export function stalenessCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): ConformanceCase[] {
  return [
    {
      name: 'it converges although its cache lags behind',
      run() {
        return runVariants(this.name, lifecycles, async () => [
          behind(lifecycles, 'its cache shows every change late, one by one', false),
          behind(lifecycles, 'its cache shows every change late, one by one, and the deletion last', true),
        ])
      },
    },
    {
      name: 'it converges although a new process starts with an older state',
      run() {
        return runVariants(this.name, lifecycles, async () => [timeTravel(lifecycles)])
      },
    },
    {
      name: 'it converges although it sees only the last of several changes',
      run() {
        return runVariants(this.name, lifecycles, async () => [
          skipped(lifecycles, true),
          skipped(lifecycles, false),
        ])
      },
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

/** Sieve's "time travel" (OSDI 2022), for every state of the object. */
function timeTravel<T extends ApiObject, Outside>(lifecycles: Lifecycles<T, Outside>): Variant<T, Outside> {
  let shown = ''
  return {
    after: 'after a restart with an older state in its cache',
    get when() {
      return `it is restarted and its cache shows ${shown}`
    },
    baseline: 'edited',
    async run(scenario, { converged, gone }) {
      const { model } = lifecycles.subject
      await scenario.create()
      using history = await History.record(scenario.client, scenario.models)
      await scenario.start()
      await scenario.converged()
      for (const edit of lifecycles.edits(scenario.outside)) {
        await edit(scenario)
        await scenario.converged()
      }
      const { metadata } = await scenario.look()
      const { version: present } = metadata
      const key = objectKey(metadata)
      await scenario.until('the present is recorded', () => history.versionsOf(model, key).includes(present))
      const versions = history.versionsOf(model, key)
      for (const version of versions.slice(0, versions.indexOf(present))) {
        shown = `the state at version ${version} of ${versions.join(', ')}`
        scenario.kill()
        scenario.timeline.note(`its cache shows version ${version}`, true)
        await scenario.start({ past: { version, stateAt: path => history.stateAt(path, version) } })
        await scenario.rest(staleMs)
        scenario.process.transport.showPresent()
        await scenario.converged(converged)
      }
      await scenario.deleteAll()
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
