import type { Logger } from '../../log/index.ts'
import type { RequestQueues } from '../../scheduling/index.ts'
import { type ExplainFault, errorResponse, explained, toApiError } from '../error-response.ts'
import { refusalInTurn } from '../request-seat.ts'
import type { Middleware, RequestState } from '../request-state.ts'
import { withWarnings } from '../warning-headers.ts'

/**
 * Turns every error into a response with a Status. `explain` adds to those of faults what a developer wants to know.
 */
export function errors(
  log: Logger,
  queues: RequestQueues,
  explain: ExplainFault = () => undefined,
): Middleware {
  return async (ctx, next) => {
    try {
      await next()
    } catch (thrown) {
      const { method, req, state } = ctx
      const error = state.caller === undefined ? await refusalInTurn(queues, req.socket, thrown) : thrown
      const response = errorResponse(
        explained(toApiError(error, log, { method, path: req.url }), error, explain),
      )
      // Undefined for a request that is refused early.
      const { info, warnings = [] }: Partial<RequestState> = state
      const warning = info?.served?.versionAt(info.path).warning
      state.response = withWarnings(response, warning === undefined ? warnings : [warning, ...warnings])
    }
  }
}
