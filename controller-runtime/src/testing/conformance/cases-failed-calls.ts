import { ApiError, type StatusReason } from '../../api/errors.ts'
import type { ApiObject } from '../../api/object.ts'
import { TransportError, type TransportResponse } from '../../client/transport.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { atCall, type CallPoint, type Lifecycles, runVariants, type Variant } from './lifecycles.ts'
import { annotate } from './other-writers.ts'
import { type Disturb, describeCall } from './process-transport.ts'
import { Scenario } from './scenario.ts'

/** Temporary errors. */
const refusals: readonly StatusReason[] = ['TooManyRequests', 'InternalError', 'ServiceUnavailable']

/** Cases in which a call is refused, or the response to a write is lost. */
export function failedCallCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): ConformanceCase[] {
  return [
    {
      name: 'it retries temporary errors of any call: 409, 429, 500 and 503',
      async run() {
        const { calls } = await lifecycles.one()
        const variants = calls.flatMap(call => [
          ...refusals.map(reason => refused(lifecycles, call, reason)),
          ...(call.method === 'GET' || call.method === 'POST' ? [] : [conflicting(lifecycles, call)]),
        ])
        await runVariants(this.name, variants)
      },
    },
    {
      name: 'it handles a lost response to a write, which may or may not have happened',
      async run() {
        const { calls } = await lifecycles.one()
        const writes = calls.filter(({ method }) => method !== 'GET')
        await runVariants(
          this.name,
          writes.flatMap(call => unknownOutcomes(lifecycles, call)),
        )
      },
    },
    {
      name: 'it stops when aborted during any call, and another process takes over',
      async run() {
        const { calls } = await lifecycles.one()
        await runVariants(
          this.name,
          calls.map(call => stopped(lifecycles, call)),
        )
      },
    },
  ]
}

function refused<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
  call: CallPoint,
  reason: StatusReason,
): Variant {
  const response = responseOf(new ApiError(reason, `the conformance suite refuses ${describeCall(call)}`))
  return {
    when: `${describeCall(call)} fails with ${response.status} ${reason} and is not executed`,
    run: () => lifecycles.disturbed(() => atCall(call.number, async () => response)),
  }
}

/** A genuine conflict: another writer has changed the object, and its event follows. */
function conflicting<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
  call: CallPoint,
): Variant {
  const response = responseOf(new ApiError('Conflict', 'the conformance suite has changed the object'))
  return {
    when: `another writer annotates the object before ${describeCall(call)}, which fails with 409 Conflict`,
    async run() {
      const { converged, gone } = await lifecycles.one()
      await using scenario = await Scenario.open(lifecycles.subject)
      const conflict: Disturb = async () => {
        await annotate(scenario, 'conflict', 'x')
        return response
      }
      await scenario.create()
      await scenario.start({ disturb: atCall(call.number, conflict) })
      await scenario.converged()
      if (call.phase === 'converging') await annotate(scenario, 'conflict', null)
      await scenario.converged()
      await scenario.expectSnapshot(converged)
      await scenario.deleteAll()
      await scenario.gone()
      await scenario.expectSnapshot(gone)
    },
  }
}

function unknownOutcomes<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
  call: CallPoint,
): Variant[] {
  const timeout = responseOf(new ApiError('Timeout', 'no response in time: the write may have happened'))
  const outcomes: Record<string, () => TransportResponse> = {
    'fails with 504': () => timeout,
    'gets no response because the connection is lost': () => {
      throw new TransportError('the connection is lost')
    },
  }
  return Object.entries(outcomes).flatMap(([what, response]) =>
    [true, false].map(happened => ({
      when: `${describeCall(call)} ${what}, and it ${happened ? 'was' : 'was not'} executed`,
      run: () =>
        lifecycles.disturbed(() =>
          atCall(call.number, async (_call, carryOut) => {
            if (happened) await carryOut()
            return response()
          }),
        ),
    })),
  )
}

function stopped<T extends ApiObject, Outside>(lifecycles: Lifecycles<T, Outside>, call: CallPoint): Variant {
  return {
    when: `it is stopped while ${describeCall(call)} hangs`,
    async run() {
      const { converged, gone } = await lifecycles.one()
      await using scenario = await Scenario.open(lifecycles.subject)
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
      await scenario.until('the call is made', () => hangs)
      const { process } = scenario
      await process.manager.stop()
      await scenario.until('no run continues after its signal has been aborted', () => process.running === 0)
      process.kill()
      await scenario.start()
      if (call.phase === 'converging') {
        await scenario.converged()
        await scenario.expectSnapshot(converged)
        await scenario.deleteAll()
      }
      await scenario.gone()
      await scenario.expectSnapshot(gone)
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
