import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Certificates, makeCertificates } from './certificates.ts'
import { fieldsOf, textOf } from './json.ts'
import { Kubectl } from './kubectl.ts'
import { Running, runProgram } from './server.ts'
import { Users } from './users.ts'
import { type Store, startWorld, type World } from './worlds.ts'

/** The servers on which the programs of `test/clients` run unchanged. */
export const settings: readonly ClientSetting[] = [
  { title: 'the embedded store, without authentication', store: 'embedded', secure: false },
  { title: 'etcd, with TLS and tokens', store: 'etcd', secure: true },
]

export interface ClientSetting {
  readonly title: string
  readonly store: Store
  readonly secure: boolean
}

/** A server with the kind `Widget`, and a kubeconfig for it. */
export class ClientWorld {
  readonly world: World
  readonly kubectl: Kubectl
  readonly #kubeconfig: string
  readonly #certificates: Certificates | undefined
  readonly #users: Users<'ann'> | undefined
  readonly #folder: string

  private constructor(
    world: World,
    kubectl: Kubectl,
    kubeconfig: string,
    folder: string,
    certificates?: Certificates,
    users?: Users<'ann'>,
  ) {
    this.world = world
    this.kubectl = kubectl
    this.#kubeconfig = kubeconfig
    this.#folder = folder
    this.#certificates = certificates
    this.#users = users
  }

  static async start({ store, secure }: Omit<ClientSetting, 'title'>): Promise<ClientWorld> {
    const certificates = secure ? await makeCertificates() : undefined
    const users = secure ? await Users.make({ ann: ['setpoint:admins'] }) : undefined
    const { cert = '', key = '', ca = '' } = certificates ?? {}
    const args = users ? [...users.args, '--tls-cert', cert, '--tls-key', key] : []
    const world = await startWorld(store, ['widgets-plugin'], { args })
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-clients-'))
    const kubeconfig = join(folder, 'kubeconfig.yaml')
    const credentials = users ? ['--server-ca', ca, '--token', users.tokenOf('ann')] : []
    const { code, stderr } = await runProgram([
      ...['kubeconfig', '--server', world.server.url, ...credentials],
      ...['--output', kubeconfig],
    ])
    if (code !== 0) throw new Error(`setpoint kubeconfig exits with ${code}: ${stderr}`)
    const kubectl = await Kubectl.open('1.34', '--kubeconfig', kubeconfig)
    return new ClientWorld(world, kubectl, kubeconfig, folder, certificates, users)
  }

  /** Starts a program with the kubeconfig. */
  run(program: string, args: readonly string[] = [], env: Readonly<Record<string, string>> = {}): Running {
    return new Running(args, { program, env: { KUBECONFIG: this.#kubeconfig, ...env } })
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

  /** Creates or changes a Widget. */
  async apply(name: string, size: number): Promise<void> {
    const widget = {
      apiVersion: 'widgets.example.com/v1',
      kind: 'Widget',
      metadata: { name },
      spec: { size },
    }
    await this.kubectl.output(['apply', '--server-side', '-f', '-'], { input: JSON.stringify(widget) })
  }

  async end(): Promise<void> {
    await this.kubectl.close()
    await this.world.end()
    await this.#users?.remove()
    for (const folder of [this.#folder, this.#certificates?.folder])
      if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  }
}
