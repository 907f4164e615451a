import { ApiError, type StatusReason } from '../../api/errors.ts'
import type { ApiObject } from '../../api/object.ts'
import { TransportError, type TransportResponse } from '../../client/transport.ts'
import { atCall, type CallPoint, disturbed, type Lifecycles } from './lifecycles.ts'
import { annotate } from './other-writers.ts'
import type { Disturb } from './process-transport.ts'
import type { Guarantee, Variant } from './variants.ts'

/** Temporary errors. Each call is refused with one of them, in turn. */
const refusals: readonly StatusReason[] = ['ServiceUnavailable', 'TooManyRequests', 'InternalError']

/** Cases with a refused call, or a lost response to a write. */
export function failedCallCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): Guarantee<T, Outside>[] {
  return [
    {
      name: 'it retries temporary errors of any call: 409, 429, 500 and 503',
      async variants() {
        const { points } = await lifecycles.baseline('one')
        return points.flatMap((point, at) => [
          ...refusals
            .filter((_, n) => n === at % refusals.length)
            .map(reason => refused<T, Outside>(point, reason)),
          ...(point.method === 'GET' || point.method === 'POST' ? [] : [conflicting<T, Outside>(point)]),
        ])
      },
    },
    {
      name: 'it handles a lost response to a write, which may or may not have happened',
      async variants() {
        const { points } = await lifecycles.baseline('one')
        const writes = points.filter(({ method }) => method !== 'GET')
        return writes.flatMap(point => [lost<T, Outside>(point, true), lost<T, Outside>(point, false)])
      },
    },
    {
      name: 'it stops when aborted during any call, and another process takes over',
      async variants() {
        const { points } = await lifecycles.baseline('one')
        return points.map(point => stopped<T, Outside>(point))
      },
    },
  ]
}

function refused<T extends ApiObject, Outside>(point: CallPoint, reason: StatusReason): Variant<T, Outside> {
  const response = responseOf(new ApiError(reason, `the conformance suite refuses ${point.call}`))
  return {
    after: `after ${point.actions[1]} failed with ${response.status} ${reason}`,
    when: `${point.call} fails with ${response.status} ${reason} and is not executed`,
    baseline: 'one',
    run: (scenario, expected) =>
      disturbed(
        scenario,
        expected,
        atCall(point, async () => response),
      ),
  }
}

/** A genuine conflict: another writer has changed the object, and its event follows. */
function conflicting<T extends ApiObject, Outside>(point: CallPoint): Variant<T, Outside> {
  const response = responseOf(new ApiError('Conflict', 'the conformance suite has changed the object'))
  return {
    after: `after ${point.actions[1]} failed with 409 Conflict`,
    when: `another writer annotates the object before ${point.call}, which fails with 409 Conflict`,
    baseline: 'one',
    async run(scenario, { converged, gone }) {
      const conflict: Disturb = async () => {
        await annotate(scenario, 'conflict', 'x')
        return response
      }
      await scenario.create()
      await scenario.start({ disturb: atCall(point, conflict) })
      await scenario.converged()
      if (point.phase === 'converging') await annotate(scenario, 'conflict', null)
      await scenario.converged(converged)
      await scenario.deleteAll()
      await scenario.gone(gone)
    },
  }
}

/** The response to a write is lost: with a 504 after the write, or with the connection before it. */
function lost<T extends ApiObject, Outside>(point: CallPoint, happened: boolean): Variant<T, Outside> {
  const timeout = responseOf(new ApiError('Timeout', 'no response in time: the write may have happened'))
  return {
    after: `after ${point.actions[1]} ${happened ? 'succeeded, but the response was lost' : 'was lost on its way'}`,
    when: `${point.call} ${happened ? 'fails with 504, and it was executed' : 'gets no response because the connection is lost, and it was not executed'}`,
    baseline: 'one',
    run: (scenario, expected) => {
      const disturb: Disturb = async (_call, carryOut) => {
        if (!happened) throw new TransportError('the connection is lost')
        await carryOut()
        return timeout
      }
      return disturbed(scenario, expected, atCall(point, disturb))
    },
  }
}

function stopped<T extends ApiObject, Outside>(point: CallPoint): Variant<T, Outside> {
  return {
    after: `after it was stopped while ${point.actions[1]}`,
    when: `it is stopped while ${point.call} hangs`,
    baseline: 'one',
    async run(scenario, { converged, gone }) {
      let hangs = false
      const hang: Disturb = ({ signal }) => {
        hangs = true
        return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
      }
      await scenario.create()
      await scenario.start({ disturb: atCall(point, hang) })
      if (point.phase === 'deleting') {
        await scenario.converged()
        await scenario.deleteAll()
      }
      await scenario.reached(() => hangs)
      const { process } = scenario
      scenario.timeline.note('the process is stopped')
      await scenario.pumped('the manager has stopped', process.manager.stop())
      await scenario.until(
        'no run continues after its signal has been aborted',
        () => process.running === 0,
        'it continued although its signal was aborted',
      )
      process.kill()
      await scenario.start()
      if (point.phase === 'converging') {
        await scenario.converged(converged)
        await scenario.deleteAll()
      }
      await scenario.gone(gone)
    },
  }
}

function responseOf(error: ApiError): TransportResponse {
  return {
    status: error.code,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(error.toStatus()),
  }
}
