import {
  type Client,
  createClient,
  createManager,
  defineModel,
  HttpTransport,
  Informer,
  type InformerHandler,
  type Manager,
  type ManagerOptions,
  type ObjectOf,
  singleValueIndex,
  type Transport,
} from '@setpoint/controller-runtime'
import type { HttpTransportOptions } from '@setpoint/controller-runtime/internal'
import {
  type FaultProxy,
  startFaultProxy,
  startTestServer,
  type TestServer,
} from '@setpoint/controller-runtime/testing'
import { expect } from 'vitest'

/** The kind that the SDK is tested with. */
export const Lamp = defineModel({
  group: 'sdk.example.com',
  version: 'v1',
  kind: 'Lamp',
  singular: 'lamp',
  plural: 'lamps',
  schema: {
    spec: {
      type: 'object',
      required: ['watts'],
      properties: { watts: { type: 'integer' }, colour: { type: 'string' } },
    },
    status: { type: 'object', properties: { lit: { type: 'integer' } } },
  },
  subresources: { status: true },
  indexes: [singleValueIndex({ name: 'spec.colour', indexFunc: lamp => lamp.spec.colour })],
})

/** A kind of dependents; a lamp may own them. */
export const Shade = defineModel({
  group: 'sdk.example.com',
  version: 'v1',
  kind: 'Shade',
  singular: 'shade',
  plural: 'shades',
  schema: { spec: { type: 'object', properties: { of: { type: 'string' } } } },
})

export type LampObject = ObjectOf<typeof Lamp>

/** Delays short enough for tests. */
const quick = { backoffBaseMs: 5, backoffMaxMs: 50 }

/** Options of the client behind the proxy. */
type SdkWorldOptions = Pick<HttpTransportOptions, 'watchIdleTimeoutMs'>

/** A real server and one client behind a proxy. The proxy's faults affect only that client. */
export class SdkWorld implements AsyncDisposable {
  readonly server: TestServer
  readonly proxy: FaultProxy
  /** Through the proxy. */
  readonly transport: HttpTransport
  readonly client: Client
  /** Directly, as other clients. */
  readonly others: Client
  readonly #closing: (() => unknown)[] = []

  private constructor(server: TestServer, proxy: FaultProxy, options: SdkWorldOptions) {
    this.server = server
    this.proxy = proxy
    this.transport = new HttpTransport({ server: proxy.url, ...options })
    this.client = createClient(this.transport)
    this.others = server.client
  }

  static async open(options: SdkWorldOptions = {}): Promise<SdkWorld> {
    const server = await startTestServer({ models: [Lamp, Shade] })
    return new SdkWorld(server, await startFaultProxy(await server.listen()), options)
  }

  /** A cache of the lamps through the proxy, not started. */
  informer(...handlers: InformerHandler<LampObject>[]): Informer<LampObject> {
    const informer = new Informer(Lamp, { client: this.client, watcher: quick })
    for (const handler of handlers) informer.addHandler(handler)
    this.#closing.push(() => informer.stop())
    return informer
  }

  /** A manager through the proxy, not started. */
  manager(options: ManagerOptions = {}): Manager {
    const manager = createManager({ transport: this.transport, drainTimeoutMs: 0, ...options })
    this.#closing.push(() => manager.stop())
    return manager
  }

  lamp(name: string, watts: number, colour?: string): Promise<LampObject> {
    const spec = { watts, ...(colour !== undefined && { colour }) }
    return this.others.create(Lamp, { metadata: { name }, spec })
  }

  /** Waits until the cache equals the server's state. */
  async same(informer: Informer<LampObject>): Promise<void> {
    const live = async () => (await this.others.list(Lamp, { sort: 'metadata.name,asc' })).items
    const cached = () => [...informer.list()].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
    await expect
      .poll(async () => ({ cached: cached(), live: await live() }), patience)
      .toSatisfy(
        ({ cached, live }) => JSON.stringify(cached.map(essence)) === JSON.stringify(live.map(essence)),
      )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.proxy.close()
    await Promise.all(this.#closing.map(close => close()))
    this.transport.close()
    await this.server.close()
  }
}

/** For `expect.poll`. */
export const patience = { timeout: 60_000, interval: 5 }

function essence({ metadata: { name, uid, version } }: LampObject): string {
  return `${name} ${uid} ${version}`
}

/** A handler that records its calls in order. */
export function listener(): InformerHandler<LampObject> & { readonly heard: string[] } {
  const heard: string[] = []
  return {
    heard,
    onAdd: ({ metadata, spec }) => void heard.push(`+${metadata.name}${spec.watts}`),
    onUpdate: (_before, { metadata, spec }) => void heard.push(`~${metadata.name}${spec.watts}`),
    onDelete: ({ metadata }) => void heard.push(`-${metadata.name}`),
  }
}

/** A transport that asks the server to end each watch after this many seconds. */
export function withTimeoutSeconds(seconds: number, transport: Transport): Transport {
  return {
    request: request => transport.request(request),
    watch: (path, options) =>
      transport.watch(`${path}${path.includes('?') ? '&' : '?'}timeoutSeconds=${seconds}`, options),
  }
}
