import { arrayOf, type Fields, fieldsOf, isFields, numberOf, optionalText, textOf } from './json.ts'

/** An HTTP client for tests. It also checks the form that the contract gives to every response. */

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body as JSON; undefined if it is not JSON. */
  readonly body: unknown
}

export interface Meta {
  readonly name: string
  readonly uid: string
  readonly version: string
  readonly resourceVersion: string
  /** 0 of a built-in kind, whose objects have none. */
  readonly generation: number
  readonly creationTimestamp: string
  readonly deletionTimestamp: string | undefined
  readonly finalizers: readonly string[]
  readonly labels: Fields
  readonly annotations: Fields
}

export interface ApiObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: Meta
  readonly spec: Fields
  readonly status: Fields
  /** The object as sent. */
  readonly raw: Fields
}

export interface List {
  readonly version: string
  readonly items: readonly ApiObject[]
  /** The items' names, in order. */
  readonly names: readonly string[]
  readonly raw: Fields
}

export interface Cause {
  readonly reason: string
  readonly message: string
  readonly field: string | undefined
}

export interface Refusal {
  readonly code: number
  readonly reason: string
  readonly message: string
  readonly causes: readonly Cause[]
  readonly details: Fields
}

export interface RequestOptions {
  readonly headers?: Readonly<Record<string, string>>
  /** Content type of the body. Default application/json. */
  readonly type?: string
  readonly signal?: AbortSignal
}

/** A request as it goes out. */
export interface Sent {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  readonly signal?: AbortSignal
}

export type Received = Pick<Answer, 'status' | 'headers' | 'text'>

export class Api {
  readonly url: string

  constructor(url: string) {
    this.url = url
  }

  /** Sends a string or bytes unchanged, and anything else as JSON. */
  async request(
    method: string,
    path: string,
    body?: unknown,
    { headers = {}, type = 'application/json', signal }: RequestOptions = {},
  ): Promise<Answer> {
    const received = await this.send(`${this.url}${path}`, {
      method,
      headers: { ...(body !== undefined && type !== '' && { 'content-type': type }), ...headers },
      ...(body !== undefined && {
        body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
      }),
      ...(signal && { signal }),
    })
    return { ...received, body: parse(received.text) }
  }

  protected async send(url: string, sent: Sent): Promise<Received> {
    const response = await fetch(url, { ...sent, redirect: 'manual' })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }

  get(path: string, options?: RequestOptions): Promise<Answer> {
    return this.request('GET', path, undefined, options)
  }

  post(path: string, body: unknown, options?: RequestOptions): Promise<Answer> {
    return this.request('POST', path, body, options)
  }

  put(path: string, body: unknown, options?: RequestOptions): Promise<Answer> {
    return this.request('PUT', path, body, options)
  }

  mergePatch(path: string, patch: unknown, options?: RequestOptions): Promise<Answer> {
    return this.request('PATCH', path, patch, { type: 'application/merge-patch+json', ...options })
  }

  jsonPatch(path: string, patch: unknown, options?: RequestOptions): Promise<Answer> {
    return this.request('PATCH', path, patch, { type: 'application/json-patch+json', ...options })
  }

  delete(path: string, body?: unknown, options?: RequestOptions): Promise<Answer> {
    return this.request('DELETE', path, body, options)
  }
}

/** The kind that most suites use, with both shapes of body that they send. */
export class Collection {
  readonly api: Api
  readonly path: string
  readonly apiVersion: string
  readonly kind: string

  constructor(api: Api, apiVersion: string, kind: string, plural: string, namespace?: string) {
    this.api = api
    this.apiVersion = apiVersion
    this.kind = kind
    const root = apiVersion.includes('/') ? '/apis' : '/api'
    const place = namespace === undefined ? '' : `namespaces/${namespace}/`
    this.path = `${root}/${apiVersion}/${place}${plural}`
  }

  body(name: string | undefined, spec: unknown, metadata: object = {}): Fields {
    const named = name === undefined ? {} : { name }
    return { apiVersion: this.apiVersion, kind: this.kind, metadata: { ...named, ...metadata }, spec }
  }

  at(name: string): string {
    return `${this.path}/${name}`
  }

  async create(name: string, spec: unknown, metadata: object = {}): Promise<ApiObject> {
    return objectOf(await this.api.post(this.path, this.body(name, spec, metadata)), 201)
  }

  async read(name: string): Promise<ApiObject> {
    return objectOf(await this.api.get(this.at(name)))
  }

  async list(query: Readonly<Record<string, string | readonly string[]>> = {}): Promise<List> {
    return listOf(await this.api.get(`${this.path}${queryText(query)}`))
  }

  /** Removes all objects, including those with finalizers. */
  async clear(): Promise<void> {
    await this.api.delete(this.path)
    for (const { metadata } of (await this.list()).items) {
      await this.api.mergePatch(this.at(metadata.name), { metadata: { finalizers: null } })
    }
  }
}

export function queryText(query: Readonly<Record<string, string | readonly string[]>>): string {
  const parameters = new URLSearchParams()
  for (const [key, values] of Object.entries(query)) {
    for (const value of [values].flat()) parameters.append(key, value)
  }
  const text = parameters.toString()
  return text === '' ? '' : `?${text}`
}

/** Checks that a response is an object with all that section 3 of the contract promises. */
export function objectOf(answer: Answer, status = 200): ApiObject {
  if (answer.status !== status) throw new Error(`${answer.status}, want ${status}: ${answer.text}`)
  return readObject(answer.body)
}

export function readObject(value: unknown): ApiObject {
  const raw = fieldsOf(value)
  const meta = fieldsOf(raw.metadata)
  const metadata: Meta = {
    name: textOf(meta.name),
    uid: textOf(meta.uid),
    version: textOf(meta.version),
    resourceVersion: textOf(meta.resourceVersion),
    generation: hasGeneration(raw) ? numberOf(meta.generation) : noGeneration(meta),
    creationTimestamp: textOf(meta.creationTimestamp),
    deletionTimestamp: optionalText(meta.deletionTimestamp),
    finalizers: arrayOf(meta.finalizers ?? []).map(textOf),
    labels: fieldsOf(meta.labels ?? {}),
    annotations: fieldsOf(meta.annotations ?? {}),
  }
  if (metadata.version !== metadata.resourceVersion)
    throw new Error(`version ${metadata.version} and resourceVersion ${metadata.resourceVersion} differ`)
  return {
    apiVersion: textOf(raw.apiVersion),
    kind: textOf(raw.kind),
    metadata,
    spec: fieldsOf(raw.spec ?? {}),
    status: fieldsOf(raw.status ?? {}),
    raw,
  }
}

/** Returns true for an object or a list of one of Kubernetes' own kinds. */
export function isBuiltIn({ apiVersion }: Fields): boolean {
  return apiVersion === 'v1' || /\.k8s\.io\/[^/]+$/.test(String(apiVersion))
}

/** Of the built-in kinds, those that declare something have a generation. */
function hasGeneration(object: Fields): boolean {
  return !isBuiltIn(object) || /^(apiextensions|admissionregistration)\./.test(String(object.apiVersion))
}

function noGeneration({ name, generation }: Fields): number {
  if (generation !== undefined) throw new Error(`${name} has the generation ${generation}`)
  return 0
}

/** Returns an item of a list. Those of built-in kinds have no apiVersion and kind, as in Kubernetes. */
function itemOf(list: Fields, value: unknown): ApiObject {
  const item = fieldsOf(value)
  if (!isBuiltIn(list)) return readObject(item)
  if (item.apiVersion !== undefined || item.kind !== undefined) throw new Error('an item has a kind')
  return readObject({ apiVersion: list.apiVersion, kind: textOf(list.kind).replace(/List$/, ''), ...item })
}

/** Checks that a response is a list. */
export function listOf(answer: Answer): List {
  if (answer.status !== 200) throw new Error(`${answer.status}, want 200: ${answer.text}`)
  const raw = fieldsOf(answer.body)
  const metadata = fieldsOf(raw.metadata)
  if (!textOf(raw.kind).endsWith('List')) throw new Error(`a list has kind ${raw.kind}`)
  if (metadata.version !== metadata.resourceVersion)
    throw new Error('version and resourceVersion of a list differ')
  const items = arrayOf(raw.items).map(item => itemOf(raw, item))
  return { version: textOf(metadata.version), items, names: items.map(({ metadata }) => metadata.name), raw }
}

const reasons: Readonly<Record<number, readonly string[]>> = {
  400: ['BadRequest'],
  401: ['Unauthorized'],
  403: ['Forbidden'],
  404: ['NotFound'],
  405: ['MethodNotAllowed'],
  406: ['NotAcceptable'],
  409: ['AlreadyExists', 'Conflict'],
  410: ['Expired'],
  413: ['RequestEntityTooLarge'],
  415: ['UnsupportedMediaType'],
  422: ['Invalid'],
  429: ['TooManyRequests'],
  500: ['InternalError'],
  503: ['ServiceUnavailable'],
  504: ['Timeout'],
}

/** Checks that a response is a Status in the form of section 8, and that its code and reason belong together. */
export function refusalOf(answer: Answer, code: number, reason?: string): Refusal {
  if (answer.status !== code) throw new Error(`${answer.status}, want ${code}: ${answer.text.slice(0, 1000)}`)
  const type = answer.headers.get('content-type') ?? ''
  if (!type.startsWith('application/json')) throw new Error(`a Status has content type ${type}`)
  if (answer.status === 503 && !/^\d+$/.test(answer.headers.get('retry-after') ?? ''))
    throw new Error(`503 without Retry-After: ${answer.text}`)
  const refusal = readStatus(answer.body, code)
  if (reason !== undefined && refusal.reason !== reason)
    throw new Error(`reason ${refusal.reason}, want ${reason}: ${answer.text}`)
  return refusal
}

export function readStatus(value: unknown, code: number): Refusal {
  const body = fieldsOf(value)
  const { kind, apiVersion, metadata, status } = body
  const known = { kind, apiVersion, metadata, status, code: body.code }
  const expected = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', code }
  if (JSON.stringify(known) !== JSON.stringify(expected))
    throw new Error(`not a Status: ${JSON.stringify(value)}`)
  const reason = textOf(body.reason)
  if (!reasons[code]?.includes(reason)) throw new Error(`${code} does not go with reason ${reason}`)
  const message = textOf(body.message)
  if (message.trim() === '') throw new Error(`a Status without a message: ${JSON.stringify(value)}`)
  const details = fieldsOf(body.details ?? {})
  const causes = arrayOf(details.causes ?? []).map(cause => {
    const fields = fieldsOf(cause)
    return {
      reason: textOf(fields.reason),
      message: textOf(fields.message),
      field: optionalText(fields.field),
    }
  })
  return { code, reason, message, causes, details }
}

export function isStatus(value: unknown): boolean {
  return isFields(value) && value.kind === 'Status'
}

function parse(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return value
  } catch {
    return undefined
  }
}
