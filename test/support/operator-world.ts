import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { KubeApiserver } from '../fixtures/kube-apiserver/record/kube-apiserver.js'
import { type ClientSetting, ClientWorld, settings } from './client-world.ts'
import { Running } from './server.ts'

/** With this, the tests of operators run against a real kube-apiserver, which shows that they expect what it does. */
const isKubernetes = process.env.SETPOINT_TEST_KUBERNETES !== undefined

export interface OperatorSetting extends ClientSetting {
  /** Whether the server is a kube-apiserver, which has no collector of dependents beside it here. */
  readonly isKubernetes: boolean
}

/** The servers for the tests of operators. */
export const operatorSettings: readonly OperatorSetting[] = isKubernetes
  ? [{ title: 'kube-apiserver', store: 'etcd', secure: true, kubectl: '1.34', isKubernetes }]
  : settings.map(setting => ({ ...setting, isKubernetes }))

/** A server with a kubeconfig whose user may do everything. */
export interface OperatorWorld {
  readonly kubeconfig: string
  /** Starts a program with the kubeconfig. */
  run(program: string, args?: readonly string[]): Running
  /** Kills the server and starts it again. Does nothing to a kube-apiserver. */
  restart(): Promise<void>
  end(): Promise<void>
}

/** @param args more flags of Setpoint */
export async function startOperatorWorld(
  setting: OperatorSetting,
  args: readonly string[] = [],
): Promise<OperatorWorld> {
  if (setting.isKubernetes) return startKubernetes()
  const world = await ClientWorld.start(setting, ['empty-plugin'], args)
  return {
    kubeconfig: world.kubeconfig,
    run: (program, args) => world.run(program, args),
    restart: () => world.world.server.restart(),
    end: () => world.end(),
  }
}

async function startKubernetes(): Promise<OperatorWorld> {
  const server = await KubeApiserver.start()
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-kubernetes-'))
  const kubeconfig = join(folder, 'kubeconfig.json')
  await writeFile(kubeconfig, JSON.stringify(server.kubeconfig()))
  return {
    kubeconfig,
    run: (program, args = []) => new Running(args, { program, env: { KUBECONFIG: kubeconfig } }),
    restart: async () => {},
    end: async () => {
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
