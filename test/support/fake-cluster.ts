import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type KubernetesObject, release } from './helm.ts'

/** An object that is in the cluster. */
export interface Present {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly namespace: string; readonly name: string }
}

/** As much of a Kubernetes API as Helm asks for a dry run: which kinds there are, and the objects that are in it. */
export class FakeCluster {
  readonly url: string
  readonly #server: Server

  private constructor(server: Server) {
    const { port } = server.address() as AddressInfo
    this.url = `http://127.0.0.1:${port}`
    this.#server = server
  }

  /** A cluster that knows the kinds of `known` and has the objects of `present`. */
  static async start(
    known: readonly KubernetesObject[],
    present: readonly Present[] = [],
  ): Promise<FakeCluster> {
    const answers = new Map<string, object>([
      ['/version', { major: '1', minor: '31', gitVersion: 'v1.31.0' }],
      ['/api', { kind: 'APIVersions', versions: ['v1'] }],
    ])
    const versions = new Map<string, Map<string, object>>()
    for (const { kind, raw } of known) {
      const groupVersion = String(raw.apiVersion)
      const resources = versions.get(groupVersion) ?? new Map<string, object>()
      versions.set(groupVersion, resources)
      resources.set(kind, { name: pluralOf(kind), namespaced: true, kind, verbs: ['get', 'list', 'create'] })
    }
    const groups: object[] = []
    for (const [groupVersion, resources] of versions) {
      const list = {
        kind: 'APIResourceList',
        apiVersion: 'v1',
        groupVersion,
        resources: [...resources.values()],
      }
      answers.set(groupVersion === 'v1' ? '/api/v1' : `/apis/${groupVersion}`, list)
      const [name = '', version = ''] = groupVersion.split('/')
      if (version === '') continue
      const served = { groupVersion, version }
      groups.push({ name, versions: [served], preferredVersion: served })
    }
    answers.set('/apis', { kind: 'APIGroupList', apiVersion: 'v1', groups })
    for (const object of present) {
      const { apiVersion, kind, metadata } = object
      const root = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`
      answers.set(`${root}/namespaces/${metadata.namespace}/${pluralOf(kind)}/${metadata.name}`, object)
    }
    const secrets = present.filter(({ kind }) => kind === 'Secret')
    const list = { kind: 'SecretList', apiVersion: 'v1', metadata: {}, items: secrets }
    answers.set(`/api/v1/namespaces/${release.namespace}/secrets`, list)
    const server = createServer((request, response) => {
      const answer = answers.get(new URL(request.url ?? '/', 'http://unused').pathname)
      response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' })
      const missing = { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'NotFound', code: 404 }
      response.end(JSON.stringify(answer ?? missing))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new FakeCluster(server)
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }
}

function pluralOf(kind: string): string {
  return kind.toLowerCase().replace(/y$/, 'ie').concat('s')
}
