import { ApiError, type StatusReason } from '../../api/errors.ts'
import type { ApiObject } from '../../api/object.ts'
import { TransportError, type TransportResponse } from '../../client/transport.ts'
import { atCall, type Baseline, type CallPoint, disturbed, type Lifecycles } from './lifecycles.ts'
import { annotate } from './other-writers.ts'
import { type Disturb, describeCall } from './process-transport.ts'
import type { Scenario } from './scenario.ts'
import type { Guarantee, Variant } from './variants.ts'

/** Temporary errors. */
const refusals: readonly StatusReason[] = ['TooManyRequests', 'InternalError', 'ServiceUnavailable']

/** Cases with a refused call, or a lost response to a write. */
export function failedCallCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): Guarantee<T, Outside>[] {
  return [
    {
      name: 'it retries temporary errors of any call: 409, 429, 500 and 503',
      async variants() {
        const { calls } = await lifecycles.baseline('one')
        return calls.flatMap(call => [
          ...refusals.map(reason => refused<T, Outside>(call, reason)),
          ...(call.method === 'GET' || call.method === 'POST' ? [] : [conflicting<T, Outside>(call)]),
        ])
      },
    },
    {
      name: 'it handles a lost response to a write, which may or may not have happened',
      async variants() {
        const { calls } = await lifecycles.baseline('one')
        const writes = calls.filter(({ method }) => method !== 'GET')
        return writes.flatMap(call => unknownOutcomes<T, Outside>(call))
      },
    },
    {
      name: 'it stops when aborted during any call, and another process takes over',
      async variants() {
        const { calls } = await lifecycles.baseline('one')
        return calls.map(call => stopped<T, Outside>(call))
      },
    },
  ]
}

function refused<T extends ApiObject, Outside>(call: CallPoint, reason: StatusReason): Variant<T, Outside> {
  const response = responseOf(new ApiError(reason, `the conformance suite refuses ${describeCall(call)}`))
  return {
    after: `after ${call.action} failed with ${response.status} ${reason}`,
    when: `${describeCall(call)} fails with ${response.status} ${reason} and is not executed`,
    baseline: 'one',
    run: (scenario, expected) =>
      disturbed(
        scenario,
        expected,
        atCall(call.number, async () => response),
      ),
  }
}

/** A genuine conflict: another writer has changed the object, and its event follows. */
function conflicting<T extends ApiObject, Outside>(call: CallPoint): Variant<T, Outside> {
  const response = responseOf(new ApiError('Conflict', 'the conformance suite has changed the object'))
  return {
    after: `after ${call.action} failed with 409 Conflict`,
    when: `another writer annotates the object before ${describeCall(call)}, which fails with 409 Conflict`,
    baseline: 'one',
    async run(scenario, { converged, gone }) {
      const conflict: Disturb = async () => {
        await annotate(scenario, 'conflict', 'x')
        return response
      }
      await scenario.create()
      await scenario.start({ disturb: atCall(call.number, conflict) })
      await scenario.converged()
      if (call.phase === 'converging') await annotate(scenario, 'conflict', null)
      await scenario.converged(converged)
      await scenario.deleteAll()
      await scenario.gone(gone)
    },
  }
}

function unknownOutcomes<T extends ApiObject, Outside>(call: CallPoint): Variant<T, Outside>[] {
  const timeout = responseOf(new ApiError('Timeout', 'no response in time: the write may have happened'))
  const outcomes: Record<string, () => TransportResponse> = {
    'fails with 504': () => timeout,
    'gets no response because the connection is lost': () => {
      throw new TransportError('the connection is lost')
    },
  }
  return Object.entries(outcomes).flatMap(([what, response]) =>
    [true, false].map(happened => ({
      after: `after ${call.action} ${happened ? 'succeeded, but the response was lost' : 'was lost on its way'}`,
      when: `${describeCall(call)} ${what}, and it ${happened ? 'was' : 'was not'} executed`,
      baseline: 'one' as const,
      run: (scenario: Scenario<T, Outside>, expected: Baseline) => {
        const disturb = atCall(call.number, async (_call, carryOut) => {
          if (happened) await carryOut()
          return response()
        })
        return disturbed(scenario, expected, disturb)
      },
    })),
  )
}

function stopped<T extends ApiObject, Outside>(call: CallPoint): Variant<T, Outside> {
  return {
    after: `after it was stopped while ${call.action}`,
    when: `it is stopped while ${describeCall(call)} hangs`,
    baseline: 'one',
    async run(scenario, { converged, gone }) {
      let hangs = false
      const hang: Disturb = ({ signal }) => {
        hangs = true
        return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
      }
      await scenario.create()
      await scenario.start({ disturb: atCall(call.number, hang) })
      if (call.phase === 'deleting') {
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
      if (call.phase === 'converging') {
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
