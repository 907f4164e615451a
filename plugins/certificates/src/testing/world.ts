import { X509Certificate } from 'node:crypto'
import {
  type ApiObject,
  type Client,
  Event,
  type Model,
  type NewObjectOf,
  until,
} from '@setpoint/controller-runtime'
import { FakeClock, startTestServer, type TestServer } from '@setpoint/controller-runtime/testing'
import { expect } from 'vitest'
import certificates, {
  Certificate,
  type CertificateObject,
  Issuer,
  KeyPair,
  RevocationList,
} from '../index.ts'

/** For a slow machine, where a key of RSA takes long. */
const patienceMs = 240_000

export const hourMs = 3_600_000
export const dayMs = 24 * hourMs

type Spec = NewObjectOf<CertificateObject>['spec']

/** A key pair with its texts parsed. */
interface ReadKeyPair {
  readonly uid: string
  readonly privateKey: string
  /** The certificate, the intermediate ones, and the one to trust. */
  readonly chain: readonly X509Certificate[]
}

/** A test server with the plugin's controllers, on a clock that the test advances. */
export class World implements AsyncDisposable {
  readonly server: TestServer
  readonly client: Client
  readonly clock: FakeClock
  /** How far the clock moves with each look. A run times out after 60 s. */
  #stepMs = 10

  private constructor(server: TestServer, clock: FakeClock) {
    this.server = server
    this.client = server.client
    this.clock = clock
  }

  /** The clock starts at the present, because routes use that of the system. */
  static async start(settings: Record<string, unknown> = {}): Promise<World> {
    const server = await startTestServer({
      plugins: [certificates],
      settings: { certificates: settings },
    })
    const world = new World(server, new FakeClock(Date.now()))
    await server.startPlugin(certificates, { clock: world.clock })
    return world
  }

  /** Creates a self-signed CA with the key pair `root`, and the issuer `ca` that signs with it. */
  async createCA(spec: Partial<Spec> = {}): Promise<void> {
    const { client } = this
    await client.create(Issuer, { metadata: { name: 'selfsigned' }, spec: { selfSigned: {} } })
    const root = { isCA: true, commonName: 'Root', duration: '87600h', issuerRef: { name: 'selfsigned' } }
    await client.create(Certificate, { metadata: { name: 'root' }, spec: { ...root, ...spec } })
    await client.create(Issuer, { metadata: { name: 'ca' }, spec: { ca: { keyPairName: 'root' } } })
    await this.becomes(Issuer, 'ca', until.condition('Ready'))
  }

  /** Creates a certificate of the CA and waits until it is ready. */
  async issue(name: string, spec: Partial<Spec> = {}): Promise<CertificateObject> {
    const wanted = { dnsNames: [`${name}.example.com`], issuerRef: { name: 'ca' }, ...spec }
    await this.client.create(Certificate, { metadata: { name }, spec: wanted })
    return this.becomes(Certificate, name, until.condition('Ready'))
  }

  /** Waits until the certificate is another one than before. */
  replaced({ metadata, status }: CertificateObject): Promise<CertificateObject> {
    return this.becomes(Certificate, metadata.name, now => {
      const serial = now?.status?.serial
      return serial !== undefined && serial !== status?.serial
    })
  }

  /**
   * Waits until an object satisfies a condition, and returns it. Meanwhile the clock runs, so that failed runs are
   * retried.
   */
  async becomes<T extends ApiObject>(
    model: Model<T>,
    name: string,
    condition: (object: T | undefined) => boolean,
  ): Promise<T> {
    let found: T | undefined
    const look = async () => {
      await this.clock.advance(this.#stepMs)
      found = await this.client.getIfExists(model, name)
      return condition(found)
    }
    await expect.poll(look, { message: `${model.kind} ${name}`, timeout: patienceMs }).toBe(true)
    if (found === undefined) throw new Error(`${name} does not exist`)
    return found
  }

  async gone<T extends ApiObject>(model: Model<T>, name: string): Promise<void> {
    const look = async () => {
      await this.clock.advance(this.#stepMs)
      return this.client.getIfExists(model, name)
    }
    await expect.poll(look, { timeout: patienceMs }).toBeUndefined()
  }

  async keyPair(name: string): Promise<ReadKeyPair> {
    const { metadata, spec } = await this.client.get(KeyPair, name)
    const texts = `${spec.certificate}${spec.ca}`.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []
    return {
      uid: metadata.uid,
      privateKey: spec.privateKey,
      chain: texts.map(text => new X509Certificate(text)),
    }
  }

  /** The serials on the list of an issuer. */
  async revoked(issuer = 'ca'): Promise<readonly string[]> {
    const list = await this.client.getIfExists(RevocationList, issuer)
    return (list?.spec.revoked ?? []).map(({ serial }) => serial)
  }

  /** Lets time pass. Watches are silent meanwhile, so they are opened again, after up to 30 s. */
  async pass(ms: number): Promise<void> {
    this.#stepMs = 1_000
    await this.clock.advance(ms)
  }

  /** The reasons of the events about a certificate. */
  async events(name: string): Promise<readonly string[]> {
    await this.clock.advance(this.#stepMs)
    const fieldSelector = `involvedObject.name=${name},involvedObject.kind=Certificate`
    const { items } = await this.client.list(Event, { fieldSelector })
    return items.map(({ reason = '' }) => reason).toSorted()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.server.close()
  }
}
