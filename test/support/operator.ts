import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadAll } from 'js-yaml'
import { findOperator } from '../../scripts/clients.mjs'
import { type Certificates, makeCertificates } from './certificates.ts'
import type { ClientWorld } from './client-world.ts'
import { arrayOf, type Fields, fieldsOf, isFields, textOf } from './json.ts'
import type { Kubectl } from './kubectl.ts'
import { freePort } from './ports.ts'
import type { Running } from './server.ts'
import { need } from './tools.ts'

await need(findOperator)

const service = { namespace: 'garden-system', name: 'webhook-service' }
const config = fileURLToPath(new URL('../../test/clients/operator/config/', import.meta.url))

/** The operator of `test/clients/operator`, and the service of its webhooks. */
export class Operator {
  /** The port of the webhooks. */
  readonly port: number
  readonly #certificates: Certificates

  private constructor(port: number, certificates: Certificates) {
    this.port = port
    this.#certificates = certificates
  }

  static async prepare(): Promise<Operator> {
    const name = `DNS:${service.name}.${service.namespace}.svc`
    return new Operator(await freePort(), await makeCertificates(name))
  }

  /** The flags of a server that finds the webhooks. */
  get serverArgs(): readonly string[] {
    return ['--webhook-service', `${service.namespace}/${service.name}=https://127.0.0.1:${this.port}`]
  }

  /**
   * Applies its roles, definition and webhooks.
   * @param isKubernetes whether the server has no flag for the service
   */
  async install(kubectl: Kubectl, isKubernetes: boolean): Promise<void> {
    const caBundle = await readFile(this.#certificates.ca, 'base64')
    const clientConfig = (path: string) =>
      isKubernetes
        ? { caBundle, url: `https://127.0.0.1:${this.port}${path}` }
        : { caBundle, service: { ...service, path } }
    const apply = (objects: readonly unknown[]) =>
      kubectl.output(['apply', '--server-side', '-f', '-'], {
        input: objects.map(object => JSON.stringify(object)).join('\n'),
      })
    const definitions = await read('crd/bases/garden.example.com_greenhouses.yaml')
    await apply([...(await read('rbac/role.yaml')), ...(await read('rbac/manager.yaml'))])
    await apply(definitions.map(definition => convertedBy(definition, clientConfig('/convert'))))
    await apply((await read('webhook/manifests.yaml')).map(each => calledAt(each, clientConfig)))
    await kubectl.output(['wait', 'crd/greenhouses.garden.example.com', '--for=condition=Established'])
  }

  /** Writes a kubeconfig of the operator's service account. */
  async kubeconfig(kubectl: Kubectl, of: string): Promise<string> {
    const token = await kubectl.output(['create', 'token', 'manager', '--namespace', service.namespace])
    const file = join(this.#certificates.folder, 'kubeconfig')
    await writeFile(file, await readFile(of))
    const change = (...args: string[]) => kubectl.output(['config', '--kubeconfig', file, ...args])
    await change('set-credentials', 'manager', `--token=${token}`)
    await change('set-context', '--current', '--user=manager')
    return file
  }

  /** Starts an instance. @param port of its webhooks */
  async start(world: Pick<ClientWorld, 'run'>, kubeconfig: string, port = this.port): Promise<Running> {
    const flags = ['--webhook-cert-path', this.#certificates.folder, '--webhook-port', String(port)]
    const lease = ['--leader-election-namespace', service.namespace]
    return world.run(await findOperator(), ['--kubeconfig', kubeconfig, ...flags, ...lease])
  }

  async remove(): Promise<void> {
    await rm(this.#certificates.folder, { recursive: true, force: true })
  }
}

async function read(file: string): Promise<readonly unknown[]> {
  return loadAll(await readFile(join(config, file), 'utf8'))
}

/** Kubebuilder's scaffold has this as a patch. */
function convertedBy(definition: unknown, clientConfig: Fields): Fields {
  const { spec, ...more } = fieldsOf(definition)
  const webhook = { clientConfig, conversionReviewVersions: ['v1'] }
  return { ...more, spec: { ...fieldsOf(spec), conversion: { strategy: 'Webhook', webhook } } }
}

function calledAt(configuration: unknown, clientConfig: (path: string) => Fields): Fields {
  const { webhooks, ...more } = fieldsOf(configuration)
  const called = arrayOf(webhooks).map(each => {
    const { clientConfig: written, ...webhook } = fieldsOf(each)
    const { service } = fieldsOf(written)
    return { ...webhook, clientConfig: clientConfig(isFields(service) ? textOf(service.path) : '/') }
  })
  return { ...more, webhooks: called }
}
