import { selectorLimits } from '@setpoint/controller-runtime/api'
import { requestLimits } from '../../apiserver/src/http/api-request.ts'
import { bodyParts } from './hostile-bodies.ts'
import { hostileText, numbered, repeat, shapeNames } from './hostile-text.ts'
import { exampleOf, type Operation } from './operations.ts'

/** A request with one hostile part. */
export interface HostileRequest {
  readonly title: string
  readonly method: string
  /** The target as it is sent. */
  readonly target: string
  readonly headers: Readonly<Record<string, string | string[]>>
  readonly body?: string | Buffer | undefined
  /** The response has no end if the request is served. */
  readonly isEndless?: boolean | undefined
}

/** Who sends the requests, and what they have besides. */
export interface Caller {
  readonly name: string
  readonly headers: Readonly<Record<string, string>>
  /** Without a question mark. */
  readonly query?: string
  /** The response has no end if the request is served. */
  readonly isEndless?: boolean
  /** Bytes of the request line and headers that the server takes. */
  readonly headerBytes?: number
}

/** What is hostile in a request. */
export type Change = Partial<Omit<HostileRequest, 'title' | 'method'>>

/** A part of the requests for an operation that can be hostile. */
export interface Part {
  readonly name: string
  /** Parts with the same key are read by the same code, and share the shapes. */
  readonly key: string
  readonly shapes: readonly string[]
  /** How many shapes they get. Default: all. */
  readonly times?: number
  /** Returns the change that gives the part this shape. */
  shaped(shape: string): Change
}

/** A request without a hostile part. */
export interface Base {
  readonly path: string
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  /** Bytes of the request line and headers that a hostile part may have. */
  readonly bytes: number
}

/** Returns requests for the parts of all operations. Those that are read by the same code get the shapes in turn. */
export function* hostileRequests(
  operations: readonly Operation[],
  caller: Caller,
): Generator<HostileRequest> {
  const groups = new Map<string, (Part & { readonly request: HostileRequest })[]>()
  for (const operation of operations) {
    const { base, request } = usual(operation, caller)
    for (const part of [...requestParts(operation, base), ...bodyParts(operation, base)]) {
      const group = groups.get(part.key) ?? []
      groups.set(part.key, group)
      group.push({ ...part, request })
    }
  }
  let turn = 0
  for (const group of groups.values()) {
    const [first] = group
    for (let n = 0; n < (first?.times ?? first?.shapes.length ?? 0); n++) {
      const part = group[n % group.length]
      const shape = part?.shapes[turn++ % part.shapes.length]
      if (part === undefined || shape === undefined) continue
      const { request, name } = part
      yield { ...request, ...part.shaped(shape), title: `${request.title}: ${name} with ${shape}` }
    }
  }
}

/** Returns an operation's request that the server accepts. */
function usual(operation: Operation, caller: Caller): { base: Base; request: HostileRequest } {
  const { method, bodies } = operation
  const merge = 'application/merge-patch+json'
  const json = bodies.get('application/json')
  const type = bodies.has(merge) ? merge : 'application/json'
  const body = bodies.has(merge) ? '{}' : json && JSON.stringify(exampleOf(json))
  const { headerBytes = requestLimits.headerBytes } = caller
  const path = pathOf(operation)
  // Not every hostile part keeps a write from being done.
  const query = caller.query ?? (method === 'GET' ? '' : 'dryRun=All&fieldManager=a')
  const headers = { ...(body !== undefined && { 'content-type': type }), ...caller.headers }
  return {
    base: { path, query, headers, bytes: headerBytes - 4096 },
    request: {
      title: `${method} ${operation.path} of ${caller.name}`,
      ...{ method, target: targetOf(path, query), headers, body, isEndless: caller.isEndless },
    },
  }
}

/** Headers that no request is refused for, so that all of them can be hostile at once. Each has a valid value. */
const harmlessHeaders: Readonly<Record<string, string>> = {
  'accept-encoding': 'gzip;q=0.5',
  'accept-language': 'en',
  'cache-control': 'no-cache',
  cookie: 'a=b',
  forwarded: 'for=192.0.2.1;proto=https',
  'if-modified-since': 'Sat, 01 Jan 2000 00:00:00 GMT',
  'if-none-match': 'W/"a"',
  'if-range': '"a"',
  'last-event-id': '1',
  prefer: 'return=minimal',
  range: 'bytes=0-1',
  referer: 'http://localhost/',
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  'user-agent': 'kubectl/v1.34.0 (linux/amd64)',
  'x-forwarded-for': '192.0.2.1',
}

/** Headers for which a request may be refused. */
const otherHeaders: Readonly<Record<string, string>> = {
  accept: 'application/json;as=Table;v=v1;g=meta.k8s.io',
  'access-control-request-headers': 'authorization',
  'access-control-request-method': 'GET',
  'audit-id': 'a-b',
  authorization: 'Bearer a.b.c',
  connection: 'keep-alive',
  'content-encoding': 'identity',
  'content-type': 'application/json;charset=utf-8',
  expect: '100-continue',
  host: 'localhost:8090',
  'if-match': '"a"',
  'impersonate-extra-scopes': 'a',
  'impersonate-group': 'a',
  'impersonate-uid': 'a',
  'impersonate-user': 'system:serviceaccount:a:b',
  origin: 'http://localhost:3000',
  'sec-websocket-extensions': 'permessage-deflate; client_max_window_bits=10',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
  'sec-websocket-protocol': 'base64url.bearer.authorization.k8s.io.YQ',
  'sec-websocket-version': '13',
  'transfer-encoding': 'chunked',
  upgrade: 'websocket',
  'x-unknown': 'a',
}

/** As in `checkHeaders`: their values may be as long as all headers together. */
const longHeader = /^(authorization|cookie|impersonate-(group|extra-.*)|sec-websocket-protocol)$/

/** Parameters that a route may read that is in no document. */
const undocumentedParameters: ReadonlyMap<string, string> = new Map([
  ['hash', 'a'],
  ['verbose', 'true'],
])

/** The lines, headers, parameters and segments of a request. */
function* requestParts(operation: Operation, base: Base): Generator<Part> {
  const { method, path, query, bodies } = operation
  const { headers, bytes } = base
  // All kinds share the code of a method.
  const code = query.size + bodies.size === 0 ? path : `${method} ${[...query.keys()]}`
  const length = (name: string) => (longHeader.test(name) ? bytes : requestLimits.headerValueBytes)
  for (const [name, valid] of Object.entries(otherHeaders))
    yield {
      // All requests share what reads the others.
      ...{ name, key: name === 'accept' ? `${code} ${name}` : name, shapes: shapeNames },
      shaped(shape) {
        const value = hostileText(shape, length(name), valid)
        return { headers: { ...headers, [name]: name === 'authorization' ? `Bearer ${value}` : value } }
      },
    }
  yield {
    ...{ name: 'harmless headers', key: `${code} headers`, shapes: shapeNames },
    shaped(shape) {
      const each = bytes / Object.keys(harmlessHeaders).length - 30
      const hostile = Object.entries(harmlessHeaders).map(([name, valid]) => {
        return [name, hostileText(shape, Math.min(each, requestLimits.headerValueBytes), valid)]
      })
      return { headers: { ...headers, ...Object.fromEntries(hostile) } }
    },
  }
  const target = targetOf(base.path, base.query)
  for (const [name, valid] of query.size > 0 ? query : undocumentedParameters) {
    const left = bytes - target.length - name.length
    for (const size of name.endsWith('Selector') ? [selectorLimits.bytes, left] : [left])
      yield {
        ...{
          name: `${size} bytes of ${name}`,
          key: `${query.size > 0 ? method : path} ${size === left} ${name}`,
          shapes: shapeNames,
        },
        shaped: shape => ({
          // Of equal parameters most are read once.
          target: targetOf(
            base.path,
            `${name}=${encoded(hostileText(shape, size, valid), left)}&${base.query}`,
          ),
        }),
      }
  }
  for (const [, name = ''] of path.matchAll(/\{(\w+)\}/g))
    yield {
      ...{ name: `{${name}}`, key: `${code} {${name}}`, shapes: shapeNames },
      shaped(shape) {
        const value = encoded(hostileText(shape, bytes, 'a'), bytes - target.length)
        return { target: targetOf(pathOf(operation, { [name]: value }), base.query) }
      },
    }
  const structures = structuresOf(base, [...query.keys()])
  yield {
    ...{ name: 'a request', key: `${code} structure`, shapes: Object.keys(structures) },
    shaped: shape => structures[shape]?.() ?? {},
  }
}

/** Bytes of a host, which the target and the header have, on a server that takes few. */
const longestHost = 5000

/** Requests that are hostile by what they have, and how much of it. */
function structuresOf(
  { path, query, headers, bytes }: Base,
  parameters: readonly string[],
): Readonly<Record<string, () => Change>> {
  const target = targetOf(path, query)
  const left = bytes - target.length
  const withHost = (host: string) => ({
    target: `http://${host}${target}`,
    headers: { ...headers, host },
  })
  const withHeaders = (more: string) => ({
    headers: { ...headers, ...Object.fromEntries(more.split(' ').map(name => [name, 'a'])) },
  })
  const repeated = parameters.map(name => [
    `${name} thousands of times`,
    () => ({ target: joined(target, repeat(`${name}=a&`, left)) }),
  ])
  return {
    ...Object.fromEntries(repeated),
    'a parameter thousands of times': () => ({ target: joined(target, repeat('a&', left)) }),
    'thousands of parameters': () => ({
      target: joined(
        target,
        numbered(n => `p${n}&`, left),
      ),
    }),
    'thousands of segments': () => ({ target: `${path}${repeat('/a', left)}` }),
    'thousands of slashes': () => ({ target: `${path}${repeat('/', left)}` }),
    'thousands of dots': () => ({ target: `${path}${repeat('/..', left)}` }),
    'encoded slashes': () => ({ target: `${path}/${repeat('%2F', left)}` }),
    'no path': () => ({ target: repeat('*', left) }),
    'a long host': () => withHost(`${repeat('a.', longestHost)}a`),
    'a long punycode host': () => withHost(`xn--${repeat('a9', longestHost)}`),
    'thousands of headers': () => withHeaders(`header${numbered(n => ` header${n}`, left / 1.6)}`),
    'a header thousands of times': () => ({
      headers: { ...headers, accept: Array(requestLimits.headerValueBytes / 8).fill('a/b;a') },
    }),
    'thousands of Impersonate-Extra headers': () =>
      withHeaders(`impersonate-user${numbered(n => ` impersonate-extra-${n}%2f`, left / 1.3)}`),
  }
}

/** Returns the path of an operation, with the names of what exists. */
export function pathOf({ path }: Operation, names: Readonly<Record<string, string>> = {}): string {
  return path.replace(/\{(\w+)\}/g, (_all, name: string) => names[name] ?? existing[name] ?? 'example')
}

const existing: Readonly<Record<string, string>> = {
  group: 'items.example.com',
  namespace: 'default',
  version: 'v1',
}

function targetOf(path: string, query: string): string {
  return query === '' ? path : joined(path, query)
}

function joined(target: string, query: string): string {
  return `${target}${target.includes('?') ? '&' : '?'}${query}`
}

/** Percent-encodes a text, and cuts it to this length. */
function encoded(text: string, length: number): string {
  const whole = encodeURIComponent(text)
  if (whole.length <= length) return whole
  return encodeURIComponent(text.slice(0, Math.floor((length * text.length) / whole.length)))
}
