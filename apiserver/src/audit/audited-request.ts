import { randomUUID } from 'node:crypto'
import type { UserInfo } from '@setpoint/controller-runtime'
import { isRecord } from '@setpoint/controller-runtime/api'
import type { Grant, Identity } from '../security/index.ts'
import {
  type AuditOrigin,
  type AuditTarget,
  decisionJson,
  eventDefaults,
  microTime,
  objectRefJson,
  optionalField,
  requestURIOf,
  senderJson,
  withoutManagedFields,
} from './audit-event.ts'
import type { AuditAttributes, AuditDecision, AuditLevel, AuditStage } from './policy.ts'

/** What a request needs of the audit log. */
export interface AuditRecorder {
  decide(attributes: AuditAttributes): AuditDecision
  emit(event: string): void
  /** Returns true for a kind whose objects have secrets. */
  readonly isSensitive: (apiVersion: string, kind: string) => boolean
}

/** What a request is about. */
interface AuditSubject {
  readonly verb: string
  readonly target: AuditTarget
  /** True if the objects have secrets. */
  readonly isSensitive: boolean
}

/** The end of a request. */
export interface AuditOutcome {
  /** Undefined if the client left before the status was known. */
  readonly code: number | undefined
  /** The response, if it is JSON. */
  readonly body?: Buffer | readonly Buffer[]
  /** The header `Location`, whose last segment is the name of a created object. */
  readonly location?: string | readonly string[]
}

const nothing: AuditSubject = Object.freeze({ verb: '', target: '', isSensitive: false })

/**
 * The events of one request, in this order; the policy decides which of them are written:
 *
 *     begin ──decided──▶ RequestReceived ──started──▶ ResponseStarted ──completed──▶ ResponseComplete
 *       └──────────────── completed: refused before or by the authorization ──────────────▲
 *
 * Bodies of sensitive kinds are never recorded: their requests have the level Metadata at most, without a query, and
 * without the message of an error, because these can have values of objects.
 */
export class AuditedRequest {
  /** Also in the response header `Audit-ID`. */
  readonly id: string
  readonly #log: AuditRecorder
  readonly #origin: AuditOrigin
  readonly #receivedAt = Date.now()
  #user: UserInfo | undefined
  #impersonated: UserInfo | undefined
  #subject: AuditSubject | undefined
  #isDecided = false
  #grant: Grant | undefined
  #decision: AuditDecision | undefined
  #requestObject: string | undefined
  #isCompleted = false
  #isTruncated = false
  /** Those of policies and webhooks, by key. */
  #notes: Map<string, string> | undefined
  #noteLength = 0

  constructor(log: AuditRecorder, origin: AuditOrigin) {
    this.#log = log
    this.#origin = origin
    const given = origin.headers['audit-id']
    this.id = typeof given === 'string' && /^[-\w.]{1,64}$/.test(given) ? given : randomUUID()
  }

  /** Sets the caller, and the user that the caller impersonates. */
  identified({ user, impersonator }: Identity): void {
    this.#user = impersonator?.user ?? user
    this.#impersonated = impersonator && user
  }

  setSubject(subject: AuditSubject): void {
    this.#subject = subject
  }

  /** Must be called when the request has been authorized, or, without a grant, forbidden. */
  decided(grant: Grant | undefined): void {
    this.#isDecided = true
    this.#grant = grant
    if (grant !== undefined) this.#emit('RequestReceived', this.#receivedAt)
  }

  /** Takes the decoded body of the request. Undefined if the policy does not ask for it, or its kind has secrets. */
  get onDocument(): ((document: unknown) => void) | undefined {
    if (!this.#records('Request')) return undefined
    return document => {
      if (!this.#isSensitiveObject(document)) this.#requestObject = this.#textOf(document)
    }
  }

  /**
   * Adds an annotation to the event of the end. Of sensitive kinds there are none, because they may have values of
   * objects.
   */
  annotate(key: string, value: string): void {
    this.#noteLength += key.length + value.length
    if (this.#noteLength > eventDefaults.annotationsLength) {
      this.#isTruncated = true
      return
    }
    this.#notes ??= new Map()
    this.#notes.set(key, value)
  }

  /** Must be called when a watch has been opened. */
  started(code: number): void {
    if (this.#isCompleted) return
    this.#emit('ResponseStarted', Date.now(), { code })
  }

  /** Idempotent. */
  completed(outcome: AuditOutcome): void {
    if (this.#isCompleted) return
    this.#isCompleted = true
    if (this.#grant === undefined) this.#emit('RequestReceived', this.#receivedAt)
    this.#emit('ResponseComplete', Date.now(), outcome)
  }

  #decide(): AuditDecision {
    const { verb, target } = this.#described
    this.#decision ??= this.#log.decide({ user: this.#user, verb, target })
    return this.#decision
  }

  get #described(): AuditSubject {
    return this.#subject ?? nothing
  }

  get #level(): AuditLevel {
    const { level } = this.#decide()
    return this.#described.isSensitive && level !== 'None' ? 'Metadata' : level
  }

  /** Returns true if the body of the request, or also of the response, is recorded. */
  #records(level: 'Request' | 'RequestResponse'): boolean {
    if (typeof this.#described.target === 'string') return false
    return this.#level === 'RequestResponse' || this.#level === level
  }

  #emit(stage: AuditStage, at: number, outcome?: AuditOutcome): void {
    const { level: decided, omitStages } = this.#decide()
    if (decided === 'None' || omitStages.has(stage)) return
    const { verb, target, isSensitive } = this.#described
    const isComplete = stage === 'ResponseComplete'
    const requestObject = stage === 'RequestReceived' ? undefined : this.#requestObject
    const responseObject = isComplete ? this.#responseObjectOf(outcome) : undefined
    // Faster than JSON.stringify of an object: most parts are known texts.
    this.#log.emit(
      `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"${this.#level}","auditID":"${this.id}","stage":"${stage}",` +
        `"requestURI":${JSON.stringify(requestURIOf(this.#origin, isSensitive))},"verb":"${verb}",` +
        senderJson(this.#user, this.#impersonated, this.#origin) +
        optionalField('objectRef', objectRefJson(target, nameIn(outcome?.location))) +
        optionalField('responseStatus', outcome && this.#statusOf(outcome)) +
        `,"requestReceivedTimestamp":"${microTime(this.#receivedAt)}","stageTimestamp":"${microTime(at)}"` +
        optionalField('annotations', this.#annotations()) +
        optionalField('requestObject', requestObject) +
        optionalField('responseObject', responseObject) +
        '}',
    )
  }

  /** Returns the annotations as JSON, or undefined. */
  #annotations(): string | undefined {
    const decision = this.#isDecided ? decisionJson(this.#grant) : undefined
    if (!this.#isTruncated && this.#notes === undefined) return decision && `{${decision}}`
    const notes = this.#described.isSensitive ? [] : (this.#notes ?? [])
    const others = [...notes].map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`)
    if (this.#isTruncated) others.push('"audit.k8s.io/truncated":"true"')
    return `{${[decision, ...others].filter(Boolean).join(',')}}`
  }

  /** Returns the `responseStatus` as JSON, or undefined. */
  #statusOf({ code, body }: AuditOutcome): string | undefined {
    if (code === undefined) return undefined
    const error = code < 400 || body === undefined ? undefined : parsed(body)
    if (!isRecord(error) || error.kind !== 'Status') return `{"metadata":{},"code":${code}}`
    const { status, reason, message, details } = error
    if (this.#described.isSensitive) return JSON.stringify({ metadata: {}, status, reason, code })
    const text = typeof message === 'string' ? message.slice(0, eventDefaults.messageLength) : undefined
    const { group, kind, name, uid } = isRecord(details) ? details : {}
    return JSON.stringify({
      metadata: {},
      status,
      message: text,
      reason,
      ...(details !== undefined && { details: { group, kind, name, uid } }),
      code,
    })
  }

  #responseObjectOf(outcome: AuditOutcome | undefined): string | undefined {
    const { body } = outcome ?? {}
    if (body === undefined || !this.#records('RequestResponse')) return undefined
    if (lengthOf(body) > eventDefaults.objectBytes) {
      this.#isTruncated = true
      return undefined
    }
    const value = parsed(body)
    return value === undefined || this.#isSensitiveObject(value) ? undefined : this.#textOf(value)
  }

  /**
   * A body can have another kind than the path, or be a `List` of any kinds, and is refused only after it has been
   * read.
   */
  #isSensitiveObject(value: unknown): boolean {
    if (!isRecord(value)) return false
    const { apiVersion, kind, items } = value
    if (kind === 'List' && Array.isArray(items) && items.some(each => this.#isSensitiveObject(each)))
      return true
    if (typeof apiVersion !== 'string' || typeof kind !== 'string') return false
    return this.#log.isSensitive(apiVersion, kind.replace(/List$/, ''))
  }

  /** Returns the JSON of a body. Undefined if it is too large, or is not an object or array. */
  #textOf(value: unknown): string | undefined {
    if (typeof value !== 'object' || value === null || Buffer.isBuffer(value)) return undefined
    const text = JSON.stringify(this.#decide().omitManagedFields ? withoutManagedFields(value) : value)
    if (Buffer.byteLength(text) <= eventDefaults.objectBytes) return text
    this.#isTruncated = true
    return undefined
  }
}

function lengthOf(body: Buffer | readonly Buffer[]): number {
  return Buffer.isBuffer(body) ? body.length : body.reduce((sum, part) => sum + part.length, 0)
}

function parsed(body: Buffer | readonly Buffer[]): unknown {
  try {
    return JSON.parse((Buffer.isBuffer(body) ? body : Buffer.concat([...body])).toString())
  } catch {
    return undefined
  }
}

/** Returns the name in a Location header: `/apis/<group>/<version>/<plural>/<name>`. */
function nameIn(location: AuditOutcome['location']): string | undefined {
  if (typeof location !== 'string') return undefined
  return location.slice(location.lastIndexOf('/') + 1)
}
