import type { Request, Response } from '../fixtures/kube-apiserver/record/exchange.js'
import { isBuiltIn } from './api.ts'
import { arrayOf, type Fields, fieldsOf, isFields } from './json.ts'

/** The parts of a response that must be the same as kube-apiserver's. */
export interface Outcome {
  readonly status: number
  /** Of a Status. */
  readonly reason?: unknown
  readonly about?: Readonly<Record<string, unknown>>
  readonly causes?: readonly unknown[]
  readonly conflict?: unknown
  readonly warnings?: readonly string[]
  readonly body?: unknown
  readonly events?: readonly unknown[]
}

/** Whether the response is that of kube-apiserver, which has managed fields from the creation on. */
export type Side = 'kubernetes' | 'setpoint'

/** Reduces the responses of one scenario to their outcomes. */
export class Outcomes {
  readonly #side: Side
  readonly #isExact: boolean
  /** Objects since their first apply. */
  readonly #applied = new Set<string>()

  /**
   * @param isExact for definitions and their objects, where Kubernetes decides: the fields of all causes, and deletions
   */
  constructor(side: Side, isExact = false) {
    this.#side = side
    this.#isExact = isExact
  }

  of(request: Request, { status, warnings, body, events }: Response): Outcome {
    if (isFields(body) && body.kind === 'Status' && body.status === 'Failure')
      return this.#failure(request, { status, warnings }, body)
    if (request.headers?.['content-type'] === 'application/apply-patch+yaml' && isFields(body))
      this.#applied.add(keyOf(body))
    const shown = { status, ...(warnings && { warnings: textsOf(warnings) }) }
    if (events !== undefined) return { ...shown, events: events.map(event => this.#comparable(event)) }
    if (request.method === 'DELETE' && !this.#isExact) return { ...shown, body: this.#deleted(body) }
    if (request.method === 'DELETE' && isFields(body) && Array.isArray(body.items))
      return { ...shown, body: { removed: body.items.map(nameOf).toSorted() } }
    return { ...shown, body: this.#comparable(body) }
  }

  #failure(
    request: Request,
    { status, warnings }: Pick<Response, 'status' | 'warnings'>,
    body: Fields,
  ): Outcome {
    const { group, kind, name, causes = [] } = fieldsOf(body.details ?? {})
    const all = arrayOf(causes).map(fieldsOf)
    const isConflict = all.some(cause => cause.reason === 'FieldManagerConflict')
    const shown = all
      .filter(cause => isConflict || isAboutField(cause, !isBuiltInGroup(group), this.#isExact))
      .map(({ reason, field, message }) => ({
        reason,
        field: field === '<nil>' ? '' : field,
        ...(isConflict && { message }),
      }))
    return {
      status,
      reason: body.reason,
      ...(this.#isExact && warnings && { warnings: textsOf(warnings) }),
      ...(status !== 405 && {
        about: {
          group: group || undefined,
          // For some mistakes kube-apiserver names the plural.
          kind: status === 409 || this.#isExact ? undefined : kind,
          name: this.#isExact ? comparableName(request, name) : name || undefined,
        },
      }),
      causes: sortedList(this.#isExact ? distinct(shown) : shown),
      ...(isConflict && { conflict: String(body.message).split('\n').toSorted() }),
    }
  }

  /** A removed object of a custom kind is a Status in Kubernetes, and the object in Setpoint. */
  #deleted(body: unknown): unknown {
    if (!isFields(body)) return body
    const { name, group } = fieldsOf(body.details ?? {})
    if (body.kind === 'Status' ? isBuiltInGroup(group) : isBuiltIn(body)) return this.#comparable(body)
    if (body.kind === 'Status') return { removed: name ?? 'a collection' }
    const { deletionTimestamp, name: ofObject } = fieldsOf(body.metadata)
    if (deletionTimestamp !== undefined) return this.#comparable(body)
    return { removed: ofObject ?? 'a collection' }
  }

  #comparable(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(item => this.#comparable(item))
    if (!isFields(value)) return value
    if (this.#isExact && isCondition(value)) return { ...value, message: '' }
    const entries = Object.entries(ofItems(value)).map(([key, part]) => [key, this.#comparable(part)])
    const fields: Fields = Object.fromEntries(entries)
    if (Array.isArray(fields.verbs)) return resourceOf(fields)
    if (!isFields(fields.metadata)) return fields
    const { version, managedFields, deletionGracePeriodSeconds, continue: next, ...more } = fields.metadata
    const metadata = {
      ...Object.fromEntries(Object.entries(more).filter(([, part]) => part !== null)),
      ...(next !== undefined && next !== '' && { continue: next }),
    }
    const isTracked = this.#side === 'setpoint' || this.#applied.has(keyOf(fields))
    const managed =
      isTracked && managedFields !== undefined
        ? { managedFields: sorted(timeless(byClients(managedFields))) }
        : {}
    const { status, ...content } = isBuiltIn(fields) ? fieldsOf(full(fields)) : fields
    const compared = {
      ...content,
      ...(status !== undefined && { status: decisionOf(status) }),
      metadata: { ...metadata, ...managed },
    }
    if (fields.kind === 'Table') return tableOf(unpaged(compared))
    return Array.isArray(fields.items) ? listOf(unpaged(compared)) : compared
  }
}

/** Gives the items of a list their kind, which built-in kinds leave out, and says whether they had one. */
function ofItems(value: Fields): Fields {
  if (!Array.isArray(value.items) || !isBuiltIn(value)) return value
  const { apiVersion, kind } = value
  const items = value.items.map(fieldsOf).map(item => ({
    ...item,
    apiVersion,
    kind: String(kind).replace(/List$/, ''),
    hasKind: item.kind !== undefined,
  }))
  return { ...value, items }
}

/** Without the texts of a decision about access. */
function decisionOf(status: unknown): unknown {
  if (!isFields(status)) return status
  const { reason, error, authenticated, ...more } = status
  if (status.allowed !== undefined) return more
  return error === undefined ? status : { ...more, isAuthenticated: authenticated === true }
}

/** Without the fields of Setpoint's own pages. */
function unpaged({
  page,
  size,
  total,
  totalPages,
  first,
  last,
  hasNext,
  hasPrevious,
  ...list
}: Fields): Fields {
  return list
}

/** A kind in a discovery document. The hash is for kube-controller-manager, which moves objects to another version. */
function resourceOf({ storageVersionHash, verbs, ...resource }: Fields): Fields {
  return { ...resource, verbs: sorted(verbs) }
}

/** In the order of names, which is that of chunks. */
function listOf(list: Fields): Fields {
  return { ...list, items: sorted(list.items, nameOf) }
}

/** Without the descriptions of columns. */
function tableOf(table: Fields): Fields {
  const columns = arrayOf(table.columnDefinitions ?? []).map(column => ({
    ...fieldsOf(column),
    description: '',
  }))
  const rows = sorted(table.rows, row => (isFields(row) && row.object ? nameOf(row.object) : canonical(row)))
  return { ...table, columnDefinitions: columns, rows }
}

function nameOf(value: unknown): string {
  const { namespace = '', name = '' } = isFields(value) ? fieldsOf(value.metadata) : {}
  return `${namespace}/${name}`
}

function sorted(value: unknown, by?: (item: unknown) => string): unknown {
  return Array.isArray(value) ? sortedList(value, by) : value
}

function sortedList(list: readonly unknown[], by: (item: unknown) => string = canonical): unknown[] {
  return list.toSorted((a, b) => (by(a) < by(b) ? -1 : 1))
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    isFields(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  )
}

function keyOf({ kind, metadata }: Fields): string {
  return `${kind} ${nameOf({ metadata })}`
}

/** The field of this cause is no field. */
const notChecked = 'some validation rules were not checked'

/** Returns true for a cause about something that a client has sent, rather than about what was not checked. */
function isAboutField({ field, message }: Fields, isOfCustomKind: boolean, isExact: boolean): boolean {
  if (isExact) return field !== undefined && field !== 'patch' && !String(message).includes(notChecked)
  return isOfCustomKind && /^(?!metadata|<nil>$|patch$)./.test(String(field ?? ''))
}

/** kube-apiserver reports some violations twice. */
function distinct(causes: readonly object[]): unknown[] {
  return [...new Map(causes.map(cause => [canonical(cause), cause])).values()]
}

/** Setpoint cuts the text that it echoes, and a generated name differs from run to run. */
function comparableName({ body }: Request, name: unknown): string | undefined {
  const isGenerated = isFields(body) && isFields(body.metadata) && body.metadata.generateName !== undefined
  return isGenerated || typeof name !== 'string' || name === '' ? undefined : name.slice(0, 90)
}

function isCondition({ type, status, message }: Fields): boolean {
  return typeof type === 'string' && typeof status === 'string' && message !== undefined
}

/** Without the fields of servers, which write the status of definitions at different times. */
function byClients(managedFields: unknown): unknown {
  return Array.isArray(managedFields)
    ? managedFields.filter(({ manager }) => manager !== 'kube-apiserver' && manager !== 'setpoint')
    : managedFields
}

function isBuiltInGroup(group: unknown): boolean {
  return group === undefined || group === '' || String(group).endsWith('.k8s.io')
}

/** Without the empty fields that Go always writes. */
function full(value: unknown): unknown {
  if (!isFields(value)) return value
  const entries = Object.entries(value).map(([key, part]) => [key, full(part)] as const)
  return Object.fromEntries(entries.filter(([key, part]) => !isEmpty(key, part)))
}

function isEmpty(key: string, part: unknown): boolean {
  if (part === '') return key.startsWith('reporting')
  if (typeof part !== 'object' || part === null) return part === null
  return Object.keys(part).length === 0
}

function timeless(managedFields: unknown): unknown {
  return Array.isArray(managedFields)
    ? managedFields.map(entry => ({ ...entry, time: undefined }))
    : managedFields
}

/** Returns the texts of Warning headers, in an order of their own. */
function textsOf(headers: readonly string[]): string[] {
  return headers
    .flatMap(header => [...header.matchAll(/299 \S+ "((?:[^"\\]|\\.)*)"/g)])
    .map(([, text = '']) => text.replaceAll('\\', ''))
    .toSorted()
}
