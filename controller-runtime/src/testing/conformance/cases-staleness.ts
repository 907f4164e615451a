import type { ApiObject } from '../../api/object.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { History } from './history.ts'
import { type Lives, runVariants, type Variant } from './lives.ts'
import { Stage } from './stage.ts'

/** Real ms that a process with an old cache gets for what it makes of that. */
const staleMs = 60

/** A cache may be behind, may be far behind after a restart, and may never show what was true for a moment. */
export function stalenessCases<T extends ApiObject, Outside>(lives: Lives<T, Outside>): ConformanceCase[] {
  return [
    {
      name: 'it works through the old states of a cache that is behind, and ends at the present one',
      run() {
        return runVariants(this.name, [
          behind(lives, 'its cache shows every change late, one by one', false),
          behind(lives, 'its cache shows every change late, one by one, the deletion at last', true),
        ])
      },
    },
    {
      name: 'it comes to the present state when a new process is shown an old one first',
      async run() {
        await runVariants(this.name, [timeTravel(lives)])
      },
    },
    {
      name: 'it needs to see the last of several changes only',
      run() {
        return runVariants(this.name, [skipped(lives, true), skipped(lives, false)])
      },
    },
  ]
}

function behind<T extends ApiObject, Outside>(
  lives: Lives<T, Outside>,
  when: string,
  deleted: boolean,
): Variant {
  return {
    when,
    async run() {
      const { converged, gone } = await lives.edited()
      await using stage = await Stage.open(lives.subject)
      await stage.create()
      await stage.start()
      await stage.converged()
      const { transport } = stage.process
      transport.hold()
      for (const edit of lives.edits(stage.outside)) await edit(stage)
      if (deleted) await stage.deleteAll()
      for (let quietMs = 0; quietMs < staleMs; quietMs += 5) {
        await stage.pass(5)
        if (transport.heldEvents === 0) continue
        transport.releaseOne()
        quietMs = 0
      }
      transport.release()
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

/** As Sieve's "time travel" (OSDI 2022), for every state that the object has been in. */
function timeTravel<T extends ApiObject, Outside>(lives: Lives<T, Outside>): Variant {
  let shown = ''
  return {
    get when() {
      return `it is restarted and its cache shows ${shown}`
    },
    async run() {
      const { converged, gone } = await lives.edited()
      const { model } = lives.subject
      await using stage = await Stage.open(lives.subject)
      await stage.create()
      using history = await History.record(stage.client, stage.models)
      await stage.start()
      await stage.converged()
      for (const edit of lives.edits(stage.outside)) {
        await edit(stage)
        await stage.converged()
      }
      const { name, version: present } = (await stage.look()).metadata
      await stage.until('the present is recorded', () => history.versionsOf(model, name).includes(present))
      const versions = history.versionsOf(model, name)
      for (const version of versions.slice(0, versions.indexOf(present))) {
        shown = `the state at version ${version} of ${versions.join(', ')}`
        stage.kill()
        await stage.start({ past: { version, stateAt: path => history.stateAt(path, version) } })
        await stage.pass(staleMs)
        stage.process.transport.showPresent()
        await stage.converged()
        await stage.expectWorld(converged)
      }
      await stage.deleteAll()
      await stage.gone()
      await stage.expectWorld(gone)
    },
  }
}

function skipped<T extends ApiObject, Outside>(lives: Lives<T, Outside>, running: boolean): Variant {
  return {
    when: running
      ? 'the object is changed several times in a moment'
      : 'the object is changed several times while it is down',
    async run() {
      const { converged, gone } = await lives.edited()
      await using stage = await Stage.open(lives.subject)
      await stage.create()
      await stage.start()
      await stage.converged()
      if (!running) stage.kill()
      for (const edit of lives.edits(stage.outside)) await edit(stage)
      if (!running) await stage.start()
      await stage.converged()
      await stage.expectWorld(converged)
      await stage.deleteAll()
      await stage.gone()
      await stage.expectWorld(gone)
    },
  }
}
