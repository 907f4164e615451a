import { type ControlPlane, leaseName } from '../support/control-plane.ts'
import { leasesOf, turnsOf } from '../support/kinds.ts'
import { RecordedWatcher } from '../support/recorded-watcher.ts'
import { tenuresOf } from '../support/tenures.ts'
import { RunRecorder, type WatcherRecorder } from '../support/watch-record/index.ts'
import { eventually } from '../support/worlds.ts'

/** Watches the controllers' lease and what controllers write, on each server in turn. */
export class TenureWatch {
  readonly #lease = new RunRecorder({ otherWriters: true })
  readonly #turns = new RunRecorder({ otherWriters: true })
  readonly #watchers: readonly RecordedWatcher[]

  /** @param onWrite called with each write of a controller */
  constructor(plane: ControlPlane, onWrite: () => void = () => {}) {
    const url = () => plane.api().url
    const lease = leasesOf(plane.api()).at(leaseName)
    const turns = turnsOf(plane.api()).path
    const recorder = (log: RunRecorder, name: string) => log.watcher(name, { witness: true })
    this.#watchers = [
      new RecordedWatcher({ url, address: lease, recorder: recorder(this.#lease, 'the lease') }),
      new RecordedWatcher({
        url,
        address: turns,
        recorder: noticing(recorder(this.#turns, 'turns'), onWrite),
      }),
    ]
  }

  async synced(): Promise<void> {
    await Promise.all(this.#watchers.map(watcher => watcher.synced()))
  }

  /** Returns the writes of processes that did not hold the lease. */
  stray(): readonly string[] {
    return tenuresOf(this.#lease.log, this.#turns.log).stray
  }

  /** Returns the number of times that the lease went to another process. */
  changes(): number {
    return tenuresOf(this.#lease.log, this.#turns.log).changes
  }

  async stop(): Promise<void> {
    await Promise.all(this.#watchers.map(watcher => watcher.stop()))
  }
}

/** Resolves once a controller has written again. */
export async function takesATurn(plane: ControlPlane, patienceMs: number): Promise<void> {
  const before = await lastCount(plane)
  await eventually(async () => {
    if ((await lastCount(plane)) === before) throw new Error('no controller writes')
  }, patienceMs)
}

function lastCount(plane: ControlPlane): Promise<unknown> {
  return eventually(async () => (await turnsOf(plane.api()).read('turn-0')).status.count)
}

function noticing(recorder: WatcherRecorder, onWrite: () => void): WatcherRecorder {
  return {
    connects: start => {
      const connection = recorder.connects(start)
      return {
        received: event => {
          connection.received(event)
          if (event.type === 'MODIFIED') onWrite()
        },
      }
    },
  }
}
