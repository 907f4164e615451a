import { ApiError } from '../../../controller-runtime/src/api/errors.ts'
import { isRecord } from '../../../controller-runtime/src/api/is-record.ts'
import { closeCodes } from '../../../controller-runtime/src/api/watch-event.ts'
import { FrameQueue } from '../../../controller-runtime/src/client/frame-queue.ts'
import type {
  Transport,
  TransportRequest,
  TransportResponse,
  WatchConnection,
  WatchEnd,
  WatchRequestOptions,
} from '../../../controller-runtime/src/client/transport.ts'
import { applyPatch, bookmarkOf, copy, type Json, type Stored, stored } from './memory-json.ts'

interface Change {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly object: Stored
  readonly version: number
}

interface Subscriber {
  readonly kind: string
  /** Undefined for all namespaces. */
  readonly namespace: string | undefined
  send(text: string): void
  end(end: WatchEnd): void
}

/**
 * A small server in memory, as a transport. Objects, versions, preconditions, finalizers and watches follow the
 * contract; it has no schemas, selectors, sorting, paging or server-side apply. For tests of the SDK itself.
 * `holdWatches` and `cutWatches` disturb watches but not requests.
 */
export class MemoryServer implements Transport {
  /** All requests as `METHOD path`, in order. */
  readonly requests: string[] = []
  /** Called before each request; if it throws, the client gets the error. */
  onRequest: (request: TransportRequest) => unknown = () => {}
  /** Returns the object of a response in place of the server, for what the server does not do. */
  answer: (request: TransportRequest) => object | undefined = () => undefined
  /** Called after each request was executed; if it throws, the client gets the error instead of the response. */
  onAnswer: (request: TransportRequest) => unknown = () => {}
  #version = 100
  #held = false
  #oldest = 0
  #uids = 0
  readonly #objects = new Map<string, Map<string, Stored>>()
  readonly #changes: (Change & { readonly kind: string })[] = []
  readonly #subscribers = new Set<Subscriber>()
  #unsent: (() => void)[] = []

  /** Returns the stored object. @param name `<namespace>/<name>` of a namespaced object */
  peek(plural: string, name: string): Stored | undefined {
    return this.#objects.get(plural)?.get(name)
  }

  get openWatches(): number {
    return this.#subscribers.size
  }

  /** Holds back all events until `releaseWatches`, so that caches become stale. */
  holdWatches(): void {
    this.#held = true
  }

  releaseWatches(): void {
    this.#held = false
    for (const send of this.#unsent.splice(0)) send()
  }

  /** Ends every watch and drops held events. New watches can be opened. */
  cutWatches(): void {
    this.#unsent = []
    for (const subscriber of [...this.#subscribers]) subscriber.end({ code: 1006, reason: 'cut' })
  }

  /** Compacts the history: watches that resume from before get 410. */
  compact(): void {
    this.#oldest = this.#version
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    await Promise.resolve()
    request.signal?.throwIfAborted()
    this.requests.push(`${request.method} ${request.path}`)
    try {
      await this.onRequest(request)
      const given = this.answer(request)
      const [status, body] = given === undefined ? this.#handle(request) : [200, given]
      await this.onAnswer(request)
      return { status, headers: {}, body: JSON.stringify(body) }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      return { status: error.code, headers: {}, body: JSON.stringify(error.toStatus()) }
    }
  }

  async watch(path: string, { signal }: WatchRequestOptions): Promise<WatchConnection> {
    await Promise.resolve()
    signal.throwIfAborted()
    const { kind, namespace, query } = parse(path)
    const version = query.get('version')
    const frames = new FrameQueue(
      Number.POSITIVE_INFINITY,
      () => {},
      () => {},
    )
    let resolveEnd: (end: WatchEnd) => void = () => {}
    const end = new Promise<WatchEnd>(resolve => {
      resolveEnd = resolve
    })
    const subscriber: Subscriber = {
      kind,
      namespace,
      send: text => frames.push(text),
      end: how => {
        this.#subscribers.delete(subscriber)
        signal.removeEventListener('abort', onAbort)
        frames.end()
        resolveEnd(how)
      },
    }
    const onAbort = () => subscriber.end({ code: 1000, reason: 'aborted' })
    signal.addEventListener('abort', onAbort, { once: true })
    if (version === null) {
      for (const object of this.#list(kind, namespace))
        subscriber.send(JSON.stringify({ type: 'ADDED', object }))
      subscriber.send(JSON.stringify(bookmarkOf(this.#version)))
      this.#subscribers.add(subscriber)
    } else if (Number(version) < this.#oldest) {
      subscriber.send(
        JSON.stringify({ type: 'ERROR', object: new ApiError('Expired', 'too old').toStatus() }),
      )
      subscriber.end({ code: closeCodes.expired, reason: 'too old' })
    } else {
      for (const change of this.#changes) {
        if (concerns(subscriber, change) && change.version > Number(version))
          subscriber.send(JSON.stringify(change))
      }
      this.#subscribers.add(subscriber)
    }
    return {
      end,
      close: () => subscriber.end({ code: 1000, reason: 'closed' }),
      async *[Symbol.asyncIterator]() {
        for (;;) {
          const frame = await frames.next()
          if (frame === undefined) return
          yield frame
        }
      },
    }
  }

  #handle(request: TransportRequest): [number, Json] {
    const { kind, namespace, name, apiVersion, status } = parse(request.path)
    const body: unknown = request.body === undefined ? undefined : JSON.parse(request.body)
    if (name === undefined) {
      if (request.method === 'GET') {
        const metadata = { version: String(this.#version), resourceVersion: String(this.#version) }
        return [200, { apiVersion, kind: 'List', metadata, items: this.#list(kind, namespace) }]
      }
      return [201, this.#create(kind, namespace, stored(body))]
    }
    const current = this.#of(kind).get(keyOf({ namespace, name }))
    if (current === undefined) {
      throw new ApiError('NotFound', `${kind} ${name} not found`, { kind, name })
    }
    switch (request.method) {
      case 'GET':
        return [200, current]
      case 'DELETE':
        return [200, this.#delete(kind, current, body)]
      case 'PUT':
        return [200, this.#replace(kind, current, stored(body), status)]
      default:
        if (request.headers?.['content-type'] === 'application/apply-patch+yaml')
          throw new ApiError('UnsupportedMediaType', 'this server has no server-side apply')
        return [200, this.#replace(kind, current, stored(applyPatch(current, body)), status)]
    }
  }

  #create(kind: string, namespace: string | undefined, object: Stored): Stored {
    const { name } = object.metadata
    if (this.#of(kind).has(keyOf({ namespace, name })))
      throw new ApiError('AlreadyExists', `${kind} ${name} exists`)
    const created = copy(object)
    if (namespace !== undefined) created.metadata.namespace = namespace
    created.metadata.uid = `uid-${++this.#uids}`
    created.metadata.generation = 1
    created.metadata.creationTimestamp = '2030-01-01T00:00:00.000Z'
    return this.#store(kind, 'ADDED', created)
  }

  #replace(kind: string, current: Stored, given: Stored, status: boolean): Stored {
    this.#check(current, given.metadata)
    const next = copy(status ? { ...current, status: given.status ?? {} } : given)
    const { uid, generation = 1, creationTimestamp, deletionTimestamp } = current.metadata
    Object.assign(next.metadata, { uid, generation, creationTimestamp })
    if (deletionTimestamp === undefined) delete next.metadata.deletionTimestamp
    else next.metadata.deletionTimestamp = deletionTimestamp
    next.metadata.version = current.metadata.version
    next.metadata.resourceVersion = current.metadata.resourceVersion
    if (JSON.stringify(next) === JSON.stringify(current)) return current
    const added = next.metadata.finalizers?.find(name => !current.metadata.finalizers?.includes(name))
    if (deletionTimestamp !== undefined && added !== undefined) {
      throw new ApiError('Invalid', `finalizer ${added} cannot be added to a deleting object`)
    }
    if (JSON.stringify(next.spec) !== JSON.stringify(current.spec)) next.metadata.generation = generation + 1
    const gone = deletionTimestamp !== undefined && (next.metadata.finalizers ?? []).length === 0
    return this.#store(kind, gone ? 'DELETED' : 'MODIFIED', next)
  }

  #delete(kind: string, current: Stored, body: unknown): Stored {
    if (isRecord(body) && isRecord(body.preconditions)) this.#check(current, body.preconditions)
    if ((current.metadata.finalizers ?? []).length === 0) {
      this.#store(kind, 'DELETED', copy(current))
      // Returns the last stored state, as Kubernetes does; its version is not that of the deletion.
      return current
    }
    if (current.metadata.deletionTimestamp !== undefined) return current
    const next = copy(current)
    next.metadata.deletionTimestamp = '2030-01-02T00:00:00.000Z'
    next.metadata.generation = (current.metadata.generation ?? 1) + 1
    return this.#store(kind, 'MODIFIED', next)
  }

  #check({ metadata }: Stored, given: { uid?: unknown; version?: unknown }): void {
    if (given.version !== undefined && given.version !== '' && given.version !== metadata.version) {
      throw new ApiError('Conflict', `version is ${metadata.version}`)
    }
    if (given.uid !== undefined && given.uid !== metadata.uid) {
      throw new ApiError('Conflict', `uid is ${metadata.uid}`)
    }
  }

  #store(kind: string, type: Change['type'], object: Stored): Stored {
    const version = ++this.#version
    object.metadata.version = String(version)
    object.metadata.resourceVersion = String(version)
    if (type === 'DELETED') this.#of(kind).delete(keyOf(object.metadata))
    else this.#of(kind).set(keyOf(object.metadata), object)
    const change = { type, object: copy(object), version, kind }
    this.#changes.push(change)
    const text = JSON.stringify({ type, object })
    for (const subscriber of this.#subscribers) {
      if (!concerns(subscriber, change)) continue
      if (this.#held) this.#unsent.push(() => subscriber.send(text))
      else subscriber.send(text)
    }
    return object
  }

  #list(kind: string, namespace: string | undefined): Stored[] {
    return [...this.#of(kind).values()].filter(
      ({ metadata }) => namespace === undefined || metadata.namespace === namespace,
    )
  }

  #of(kind: string): Map<string, Stored> {
    let objects = this.#objects.get(kind)
    if (objects === undefined) {
      objects = new Map()
      this.#objects.set(kind, objects)
    }
    return objects
  }
}

function parse(path: string) {
  const url = new URL(path, 'http://memory')
  const [, root, ...parts] = url.pathname.split('/')
  const group = root === 'api' ? '' : `${parts.shift()}/`
  const version = parts.shift()
  const namespace = parts[0] === 'namespaces' && parts.length > 2 ? parts.splice(0, 2)[1] : undefined
  const [kind = '', name, subresource] = parts
  return {
    apiVersion: `${group}${version}`,
    kind,
    namespace,
    name: name && decodeURIComponent(name),
    status: subresource === 'status',
    query: url.searchParams,
  }
}

function keyOf({
  namespace,
  name,
}: {
  readonly namespace?: string | undefined
  readonly name: string
}): string {
  return namespace === undefined ? name : `${namespace}/${name}`
}

function concerns({ kind, namespace }: Subscriber, change: { kind: string; object: Stored }): boolean {
  return kind === change.kind && (namespace === undefined || namespace === change.object.metadata.namespace)
}
