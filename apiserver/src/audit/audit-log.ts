import type { AuditOrigin } from './audit-event.ts'
import { AuditedRequest, type AuditRecorder } from './audited-request.ts'
import type { AuditAttributes, AuditDecision, AuditLevel, AuditPolicy } from './policy.ts'

/** Takes events. Never blocks: events that do not fit into its buffer are dropped and counted. */
export interface AuditSink {
  /** The name of the sink in metrics. */
  readonly name: 'log' | 'webhook'
  /** Events that were dropped since the start. */
  readonly dropped: number
  /** @param event one event as JSON, without a line end */
  write(event: string): void
  /** Writes what is buffered, and stops. Resolves after a bounded time. */
  close(): Promise<void>
}

interface AuditLogParts {
  readonly policy: AuditPolicy
  readonly sinks: readonly AuditSink[]
  readonly isSensitive: AuditRecorder['isSensitive']
}

/** Records requests as events of `audit.k8s.io/v1`, at the level that the policy says, and sends them to the sinks. */
export class AuditLog implements AuditRecorder {
  readonly sinks: readonly AuditSink[]
  readonly isSensitive: AuditLogParts['isSensitive']
  #policy: AuditPolicy
  #events = 0
  readonly #requests: Record<AuditLevel, number> = { None: 0, Metadata: 0, Request: 0, RequestResponse: 0 }

  constructor({ policy, sinks, isSensitive }: AuditLogParts) {
    this.#policy = policy
    this.sinks = sinks
    this.isSensitive = isSensitive
  }

  /** Events since the start, including those that a sink has dropped. */
  get events(): number {
    return this.#events
  }

  /** Requests since the start by level. */
  get requests(): Readonly<Record<AuditLevel, number>> {
    return this.#requests
  }

  /** Uses another policy for the requests from now on. */
  use(policy: AuditPolicy): void {
    this.#policy = policy
  }

  begin(origin: AuditOrigin): AuditedRequest {
    return new AuditedRequest(this, origin)
  }

  decide(attributes: AuditAttributes): AuditDecision {
    const decision = this.#policy.decide(attributes)
    this.#requests[decision.level]++
    return decision
  }

  emit(event: string): void {
    this.#events++
    for (const sink of this.sinks) sink.write(event)
  }

  async close(): Promise<void> {
    await Promise.all(this.sinks.map(sink => sink.close()))
  }
}
