import { Counter, Histogram, type Registry } from 'prom-client'

/** One call of a webhook. */
interface WebhookCall {
  readonly name: string
  readonly type: string
  readonly operation: string
  readonly seconds: number
  /** 0 if there was no response. */
  readonly code: number
  /** Why the write was refused; undefined if it may go on. */
  readonly rejection: string | undefined
}

/** Counts what webhooks and policies do, under the names of Kubernetes. */
export class AdmissionMetrics {
  readonly #duration: Histogram<'name' | 'operation' | 'rejected' | 'type'>
  readonly #requests: Counter<'code' | 'name' | 'operation' | 'rejected' | 'type'>
  readonly #rejections: Counter<'error_type' | 'name' | 'operation' | 'rejection_code' | 'type'>
  readonly #failedOpen: Counter<'name' | 'type'>
  readonly #checks: Counter<'enforcement_action' | 'error_type' | 'policy' | 'policy_binding'>

  constructor(registry: Registry) {
    const registers = [registry]
    this.#duration = new Histogram({
      name: 'apiserver_admission_webhook_admission_duration_seconds',
      help: 'Time that webhooks for admission take, in seconds.',
      labelNames: ['name', 'operation', 'rejected', 'type'],
      buckets: [0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 25],
      registers,
    })
    this.#requests = new Counter({
      name: 'apiserver_admission_webhook_request_total',
      help: 'Requests to webhooks for admission.',
      labelNames: ['code', 'name', 'operation', 'rejected', 'type'],
      registers,
    })
    this.#rejections = new Counter({
      name: 'apiserver_admission_webhook_rejection_count',
      help: 'Writes that were refused by a webhook, or because it failed.',
      labelNames: ['error_type', 'name', 'operation', 'rejection_code', 'type'],
      registers,
    })
    this.#failedOpen = new Counter({
      name: 'apiserver_admission_webhook_fail_open_count',
      help: 'Writes that were not refused although a webhook failed, because its failures are ignored.',
      labelNames: ['name', 'type'],
      registers,
    })
    this.#checks = new Counter({
      name: 'apiserver_validating_admission_policy_check_total',
      help: 'Validations of policies that were not true or could not be evaluated.',
      labelNames: ['enforcement_action', 'error_type', 'policy', 'policy_binding'],
      registers,
    })
  }

  called({ name, type, operation, seconds, code, rejection }: WebhookCall): void {
    const rejected = String(rejection !== undefined)
    this.#duration.observe({ name, operation, rejected, type }, seconds)
    this.#requests.inc({ code: String(code), name, operation, rejected, type })
    if (rejection === undefined) return
    this.#rejections.inc({ error_type: rejection, name, operation, rejection_code: String(code), type })
  }

  failedOpen(name: string, type: string): void {
    this.#failedOpen.inc({ name, type })
  }

  decided(policy: string, policy_binding: string, enforcement_action: string, isError: boolean): void {
    const error_type = isError ? 'invalid_error' : 'no_error'
    this.#checks.inc({ enforcement_action, error_type, policy, policy_binding })
  }
}
