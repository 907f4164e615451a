import { ApiError, type StatusReason } from '../../api/errors.ts'
import type { ApiObject } from '../../api/object.ts'
import { TransportError, type TransportResponse } from '../../client/transport.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { atCall, type CallPoint, type Lives, runVariants, type Variant } from './lives.ts'
import { annotate } from './others.ts'
import { type Disturb, describeCall } from './process-transport.ts'
import { Stage } from './stage.ts'

/** Refusals that pass by themselves. */
const refusals: readonly StatusReason[] = ['TooManyRequests', 'InternalError', 'ServiceUnavailable']

/** Every call may be refused, and the answer to every write may be lost. */
export function answerCases<T extends ApiObject, Outside>(lives: Lives<T, Outside>): ConformanceCase[] {
  return [
    {
      name: 'it tries again what the API refuses for the moment: 409, 429, 500 and 503 for any of its calls',
      async run() {
        const { calls } = await lives.one()
        const variants = calls.flatMap(call => [
          ...refusals.map(reason => refused(lives, call, reason)),
          ...(call.method === 'GET' || call.method === 'POST' ? [] : [conflicting(lives, call)]),
        ])
        await runVariants(this.name, variants)
      },
    },
    {
      name: 'it takes a write whose answer is lost for one that may or may not have happened',
      async run() {
        const { calls } = await lives.one()
        const writes = calls.filter(({ method }) => method !== 'GET')
        await runVariants(
          this.name,
          writes.flatMap(call => unknownOutcomes(lives, call)),
        )
      },
    },
    {
      name: 'it lets go when it is told to stop in the middle of any call, and another takes over',
      async run() {
        const { calls } = await lives.one()
        await runVariants(
          this.name,
          calls.map(call => stopped(lives, call)),
        )
      },
    },
  ]
}

function refused<T extends ApiObject, Outside>(
  lives: Lives<T, Outside>,
  call: CallPoint,
  reason: StatusReason,
): Variant {
  const answer = answerOf(new ApiError(reason, `the conformance suite refuses ${describeCall(call)}`))
  return {
    when: `${describeCall(call)} is answered ${answer.status} ${reason} and not carried out`,
    run: () => lives.disturbed(() => atCall(call.number, async () => answer)),
  }
}

/** A true one: somebody else has written the object, and the event of that follows. */
function conflicting<T extends ApiObject, Outside>(lives: Lives<T, Outside>, call: CallPoint): Variant {
  const answer = answerOf(new ApiError('Conflict', 'the object has been changed by the conformance suite'))
  return {
    when: `somebody annotates the object before ${describeCall(call)}, which is answered 409 Conflict`,
    async run() {
      const { converged, gone } = await lives.one()
      await using stage = await Stage.open(lives.subject)
      const conflict: Disturb = async () => {
        await annotate(stage, 'conflict', 'x')
        return answer
      }
      await stage.create()
      await stage.start({ disturb: atCall(call.number, conflict) })
      await stage.converged()
      if (call.phase === 'converging') await annotate(stage, 'conflict', null)
      await stage.converged()
      await stage.expectWorld(converged)
      await stage.deleteAll()
      await stage.gone()
      await stage.expectWorld(gone)
    },
  }
}

function unknownOutcomes<T extends ApiObject, Outside>(lives: Lives<T, Outside>, call: CallPoint): Variant[] {
  const timeout = answerOf(new ApiError('Timeout', 'no answer in time: the write may have happened'))
  const answers: Record<string, () => TransportResponse> = {
    'is answered 504': () => timeout,
    'gets no answer, as the connection is lost': () => {
      throw new TransportError('the connection is lost')
    },
  }
  return Object.entries(answers).flatMap(([what, answer]) =>
    [true, false].map(happened => ({
      when: `${describeCall(call)} ${what}, and ${happened ? 'it has' : 'it has not'} happened`,
      run: () =>
        lives.disturbed(() =>
          atCall(call.number, async (_call, carryOut) => {
            if (happened) await carryOut()
            return answer()
          }),
        ),
    })),
  )
}

function stopped<T extends ApiObject, Outside>(lives: Lives<T, Outside>, call: CallPoint): Variant {
  return {
    when: `it is told to stop while ${describeCall(call)} hangs`,
    async run() {
      const { converged, gone } = await lives.one()
      await using stage = await Stage.open(lives.subject)
      let hangs = false
      const hang: Disturb = ({ signal }) => {
        hangs = true
        return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
      }
      await stage.create()
      await stage.start({ disturb: atCall(call.number, hang) })
      if (call.phase === 'deleting') {
        await stage.converged()
        await stage.deleteAll()
      }
      await stage.until('the call is made', () => hangs)
      const { process } = stage
      await process.manager.stop()
      await stage.until('no run goes on after its signal has been aborted', () => process.running === 0)
      process.kill()
      await stage.start()
      if (call.phase === 'converging') {
        await stage.converged()
        await stage.expectWorld(converged)
        await stage.deleteAll()
      }
      await stage.gone()
      await stage.expectWorld(gone)
    },
  }
}

function answerOf(error: ApiError): TransportResponse {
  return {
    status: error.code,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(error.toStatus()),
  }
}
