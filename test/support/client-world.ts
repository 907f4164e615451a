import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Api } from './api.ts'
import { type Certificates, makeCertificates } from './certificates.ts'
import { fieldsOf, textOf } from './json.ts'
import { SecureApi } from './secure-api.ts'
import { Running, runProgram } from './server.ts'
import { Users } from './users.ts'
import { type Store, startWorld, type World } from './worlds.ts'

/** A server for clients of Kubernetes. */
export interface ClientSetting {
  readonly title: string
  readonly store: Store
  /** With TLS, and a token for each request. */
  readonly secure: boolean
  /** The version of kubectl that is tested there. */
  readonly kubectl: '1.34' | '1.32'
}

/** The settings of `npm test`. */
export const testSettings: readonly ClientSetting[] = [
  { title: 'the embedded store, without authentication', store: 'embedded', secure: false, kubectl: '1.34' },
  { title: 'etcd, with TLS and tokens', store: 'etcd', secure: true, kubectl: '1.32' },
]

/** The other combinations, for the soak. */
export const crossedSettings: readonly ClientSetting[] = [
  { title: 'the embedded store, with TLS and tokens', store: 'embedded', secure: true, kubectl: '1.32' },
  { title: 'etcd, without authentication', store: 'etcd', secure: false, kubectl: '1.34' },
]

/** The servers for the tests of each client. */
export const settings = process.env.SETPOINT_TEST_CROSSED ? crossedSettings : testSettings

/** A server with a kubeconfig for it. */
export class ClientWorld {
  readonly world: World
  /** Sends requests as a user who may do everything. */
  readonly api: Api
  /** The path of the kubeconfig. Its user may do everything. */
  readonly kubeconfig: string
  readonly #close: () => Promise<void>

  private constructor(world: World, api: Api, kubeconfig: string, close: () => Promise<void>) {
    this.world = world
    this.api = api
    this.kubeconfig = kubeconfig
    this.#close = close
  }

  /**
   * @param fixtures the plugins. Default: the one with the kind `Widget`, which the programs of `test/clients` use
   * @param args more flags
   */
  static async start(
    { store, secure }: Pick<ClientSetting, 'store' | 'secure'>,
    fixtures: readonly string[] = ['widgets-plugin'],
    args: readonly string[] = [],
  ): Promise<ClientWorld> {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-clients-'))
    const credentials = secure ? await Credentials.make() : undefined
    const world = await startWorld(store, fixtures, {
      args: [...(credentials?.serverArgs ?? []), ...args],
    })
    const kubeconfig = join(folder, 'kubeconfig.yaml')
    const { code, stderr } = await runProgram([
      ...['kubeconfig', '--server', world.server.url, '--output', kubeconfig],
      ...(credentials?.clientArgs ?? []),
    ])
    if (code !== 0) throw new Error(`setpoint kubeconfig exits with ${code}: ${stderr}`)
    const api = credentials === undefined ? world.api : await credentials.api(world.server.url)
    return new ClientWorld(world, api, kubeconfig, async () => {
      await world.end()
      await credentials?.remove()
      await rm(folder, { recursive: true, force: true })
    })
  }

  /** Starts a program with the kubeconfig. */
  run(program: string, args: readonly string[] = [], env: Readonly<Record<string, string>> = {}): Running {
    return new Running(args, { program, env: { KUBECONFIG: this.kubeconfig, ...env } })
  }

  /** Runs a program to its end. Returns what it reports. @throws Error with its log if it fails */
  async facts(...run: Parameters<ClientWorld['run']>): Promise<readonly (readonly [string, unknown])[]> {
    const { code, stdout, stderr } = await this.run(...run).ended
    if (code !== 0) throw new Error(`${run[0]} exits with ${code}: ${stderr}${stdout}`)
    const lines = stdout.split('\n').filter(line => line !== '')
    return lines.map(line => {
      const { fact, value } = fieldsOf(JSON.parse(line))
      return [textOf(fact), value]
    })
  }

  end(): Promise<void> {
    return this.#close()
  }
}

/** The certificate of a server, and the token of a user who may do everything. */
class Credentials {
  readonly #certificates: Certificates
  readonly #users: Users<'ann'>

  private constructor(certificates: Certificates, users: Users<'ann'>) {
    this.#certificates = certificates
    this.#users = users
  }

  static async make(): Promise<Credentials> {
    return new Credentials(await makeCertificates(), await Users.make({ ann: ['setpoint:admins'] }))
  }

  get serverArgs(): readonly string[] {
    const { cert, key } = this.#certificates
    return [...this.#users.args, '--tls-cert', cert, '--tls-key', key]
  }

  get clientArgs(): readonly string[] {
    return ['--server-ca', this.#certificates.ca, '--token', this.#users.tokenOf('ann')]
  }

  async api(url: string): Promise<Api> {
    const ca = await readFile(this.#certificates.ca, 'utf8')
    return new SecureApi(url, ca, this.#users.tokenOf('ann'))
  }

  async remove(): Promise<void> {
    await this.#users.remove()
    await rm(this.#certificates.folder, { recursive: true, force: true })
  }
}
