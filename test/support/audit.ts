import { readFile } from 'node:fs/promises'
import { expect } from 'vitest'
import type { Answer } from './api.ts'
import { type Fields, fieldsOf } from './json.ts'

/** An event of the audit log, with the fields that tests ask for. */
export interface AuditEvent {
  readonly auditID: string
  readonly stage: string
  readonly level: string
  readonly verb: string
  readonly requestURI: string
  readonly user: Fields
  readonly objectRef: Fields | undefined
  readonly responseStatus: Fields | undefined
  readonly annotations: Fields
  readonly requestObject: unknown
  readonly responseObject: unknown
  readonly raw: Fields
}

/** The audit log of a server. */
export class AuditTrail {
  readonly path: string

  constructor(path: string) {
    this.path = path
  }

  text(): Promise<string> {
    return readFile(this.path, 'utf8')
  }

  async events(): Promise<AuditEvent[]> {
    const lines = (await this.text()).split('\n')
    // The last one may still be written.
    return lines.slice(0, -1).map(line => readEvent(JSON.parse(line)))
  }

  /** Resolves with all events that match, once one of them is that of a complete request. */
  async until(matches: (event: AuditEvent) => boolean): Promise<AuditEvent[]> {
    let found: AuditEvent[] = []
    await expect
      .poll(async () => {
        found = (await this.events()).filter(matches)
        return found.some(({ stage }) => stage === 'ResponseComplete')
      })
      .toBe(true)
    return found
  }

  /** Resolves with the events of the request with this response. */
  of({ headers }: Answer): Promise<AuditEvent[]> {
    const id = headers.get('audit-id')
    if (id === null) throw new Error('the response has no Audit-ID')
    return this.until(({ auditID }) => auditID === id)
  }

  /** Resolves with the last event of the request with this response. */
  async end(answer: Answer): Promise<AuditEvent> {
    const event = (await this.of(answer)).at(-1)
    if (event?.stage !== 'ResponseComplete') throw new Error(`the last event is ${JSON.stringify(event)}`)
    return event
  }
}

export function readEvent(value: unknown): AuditEvent {
  const raw = fieldsOf(value)
  if (raw.kind !== 'Event' || raw.apiVersion !== 'audit.k8s.io/v1')
    throw new Error(`not an event: ${JSON.stringify(value)}`)
  const { objectRef, responseStatus, requestObject, responseObject } = raw
  return {
    auditID: String(raw.auditID),
    stage: String(raw.stage),
    level: String(raw.level),
    verb: String(raw.verb),
    requestURI: String(raw.requestURI),
    user: fieldsOf(raw.user),
    objectRef: objectRef === undefined ? undefined : fieldsOf(objectRef),
    responseStatus: responseStatus === undefined ? undefined : fieldsOf(responseStatus),
    annotations: fieldsOf(raw.annotations ?? {}),
    requestObject,
    responseObject,
    raw,
  }
}
