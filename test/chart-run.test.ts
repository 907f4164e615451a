import { execFile } from 'node:child_process'
import { cp, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Certificates, makeCertificates } from './support/certificates.ts'
import { EtcdPods } from './support/etcd-pods.ts'
import { type KubernetesObject, pick, podOf, release, render } from './support/helm.ts'
import { arrayOf, fieldsOf, textOf } from './support/json.ts'
import { PodProcess, type Surroundings, secretTexts } from './support/pod-process.ts'
import { ask } from './support/secure-api.ts'
import { eventually } from './support/worlds.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const run = promisify(execFile)

/** HTTPS, a base path and a plugin on a volume, so that every mount and address has to be right. */
const values = {
  basePath: '/x',
  tls: { secretName: 'tls' },
  plugins: { dirs: ['/plugins/demo'], volume: { persistentVolumeClaim: { claimName: 'mine' } } },
  settings: { 'max-watches': 1_000 },
  serviceMonitor: { enabled: true },
  dashboard: { enabled: true },
}

describe('a release, as local processes', () => {
  const etcdName = `${release.fullname}-etcd`
  const addresses = new Map<string, string>()
  const servers: PodProcess[] = []
  const controllers: PodProcess[] = []
  let etcd: EtcdPods | undefined
  let certificates: Certificates
  let ca: string
  let objects: readonly KubernetesObject[]
  let around: Surroundings
  let tokens: { readonly admin: string; readonly metrics: string; readonly issuer: string }

  beforeAll(async () => {
    objects = (await render(values)).objects
    certificates = await makeCertificates()
    const texts = await Promise.all(
      [certificates.cert, certificates.key, certificates.ca].map(file => readFile(file, 'utf8')),
    )
    const [cert = '', key = ''] = texts
    ca = texts[2] ?? ''
    around = {
      objects,
      secrets: { tls: { 'tls.crt': cert, 'tls.key': key, 'ca.crt': ca } },
      async fill(volume, folder) {
        if (volume.name === 'plugins')
          await cp(join(root, 'test/fixtures/demo-plugin'), join(folder, 'demo'), { recursive: true })
      },
      addresses,
    }
    const secret = secretTexts(`${release.fullname}-tokens`, around)
    tokens = {
      admin: textOf(secret['admin-token']),
      metrics: textOf(secret['metrics-token']),
      issuer: textOf(secret['controllers-token']),
    }

    etcd = await EtcdPods.start(pick(objects, 'StatefulSet', etcdName), around)
    for (const [there, here] of etcd.addresses(etcdName)) addresses.set(there, here)
    const serverPod = podOf(objects, 'Deployment', release.fullname)
    servers.push(await PodProcess.start(serverPod, around), await PodProcess.start(serverPod, around))
    addresses.set(`https://${release.fullname}.${release.namespace}.svc:8090`, servers[0]?.url ?? '')
    const controllerPod = podOf(objects, 'Deployment', `${release.fullname}-controllers`)
    controllers.push(
      await PodProcess.start(controllerPod, around),
      await PodProcess.start(controllerPod, around),
    )
  })

  afterAll(async () => {
    await Promise.all([...controllers, ...servers].map(each => each.stop()))
    await etcd?.stop()
    if (certificates !== undefined) await rm(certificates.folder, { recursive: true })
  })

  /** Requests any URL over HTTP or HTTPS. */
  async function status(url: string): Promise<number | undefined> {
    return url.startsWith('https:') ? (await ask(url, { ca })).status : (await fetch(url)).status
  }

  it('every probe passes', async () => {
    for (const process of [...servers, ...controllers]) {
      for (const name of ['startupProbe', 'livenessProbe', 'readinessProbe'] as const)
        await eventually(async () => expect(await status(process.probe(name)), process.log).toBe(200))
    }
  })

  it('etcd serves only clients with a certificate of its CA; without one it serves only health and metrics', async () => {
    const shown = async (name: string) => {
      const texts = secretTexts(name, around)
      return { cert: textOf(texts['tls.crt']), key: textOf(texts['tls.key']), ca: textOf(texts['ca.crt']) }
    }
    const client = await shown(`${etcdName}-client`)
    const [cert, key] = await Promise.all([certificates.cert, certificates.key].map(f => readFile(f, 'utf8')))
    const stranger = { cert: cert ?? '', key: key ?? '' }
    expect(etcd?.members).toHaveLength(3)
    // In TLS 1.3 the client learns of the refusal after its handshake, by an alert or by the end of the connection.
    const refused = /alert|ECONNRESET|EPIPE|socket hang up/
    for (const { client: at, peer, metrics } of etcd?.members ?? []) {
      const read = { ca: client.ca, body: { key: 'AA==', range_end: 'AA==', count_only: true } }
      for (const url of [`https://${at}/v3/kv/range`, `https://${peer}/members`]) {
        await expect(ask(url, read)).rejects.toThrow(refused)
        await expect(ask(url, { ...read, certificate: stranger })).rejects.toThrow(refused)
      }
      const answer = await ask(`https://${at}/v3/kv/range`, { ...read, certificate: client })
      expect(answer.status, answer.text).toBe(200)
      expect(Number(fieldsOf(JSON.parse(answer.text)).count)).toBeGreaterThan(0)
      // Without TLS, etcd serves only health and metrics.
      const [scraped] = arrayOf(pick(objects, 'ServiceMonitor', etcdName).spec.endpoints).map(fieldsOf)
      expect(await (await fetch(`http://${metrics}${textOf(scraped?.path)}`)).text()).toContain(
        'etcd_disk_wal_fsync_duration_seconds_bucket',
      )
      for (const path of ['/v3/kv/range', '/v2/keys', '/members'])
        expect((await fetch(`http://${metrics}${path}`, { method: 'POST', body: '{}' })).status).toBe(404)
    }
  })

  it("every server accepts the Secret's token and refuses requests without a token", async () => {
    for (const { url } of servers) {
      for (const path of ['/x/apis', '/x/metrics', '/x/apis/demo.example.com/v1/gadgets'])
        expect((await ask(`${url}${path}`, { ca })).status, path).toBe(401)
      const { status, text } = await ask(`${url}/x/apis`, { ca, token: tokens.admin })
      expect(status).toBe(200)
      expect(fieldsOf(JSON.parse(text)).kind).toBe('APIGroupList')
    }
  })

  it('an object created on one server is reconciled, and the other server serves it', async () => {
    const [one, other] = servers.map(({ url }) => `${url}/x/apis/demo.example.com/v1/gadgets`)
    const made = await ask(one ?? '', {
      ca,
      token: tokens.admin,
      body: {
        apiVersion: 'demo.example.com/v1',
        kind: 'Gadget',
        metadata: { name: 'a' },
        spec: { email: 'a@example.com' },
      },
    })
    expect(made.status, made.text).toBe(201)
    await eventually(async () => {
      const { text } = await ask(`${other}/a`, { ca, token: tokens.admin })
      expect(fieldsOf(JSON.parse(text)).status).toEqual({ phase: 'Ready', seen: 'a@example.com' })
    })
  })

  it('one of the two processes with controllers leads, and the other stands by', async () => {
    const standing = async ({ url }: PodProcess) => {
      const text = await (await fetch(`${url}/readyz?verbose`)).text()
      return /controllers (leading|standing by)/.exec(text)?.[1]
    }
    await eventually(async () =>
      expect((await Promise.all(controllers.map(standing))).sort()).toEqual(['leading', 'standing by']),
    )
  })

  it('the controllers act as the service account, and their lasting token can only issue tokens of it', async () => {
    const server = `${servers[0]?.url}/x`
    for (const { sidecars } of controllers) {
      expect(sidecars).toHaveLength(1)
      await sidecars[0]?.says(/wrote a new token/, 'stderr')
    }
    const path = '/api/v1/namespaces/setpoint-system/serviceaccounts/controllers/token'
    const issued = await ask(`${server}${path}`, { ca, token: tokens.issuer, body: {} })
    expect(issued.status, issued.text).toBe(201)
    const token = textOf(fieldsOf(fieldsOf(JSON.parse(issued.text)).status).token)
    const gadgets = `${server}/apis/demo.example.com/v1/gadgets`
    expect((await ask(gadgets, { ca, token: tokens.issuer })).status).toBe(403)
    expect((await ask(gadgets, { ca, token })).status).toBe(200)
    expect((await ask(`${server}${path}`, { ca, token, body: {} })).status).toBe(403)
    const leases = await ask(`${server}/apis/coordination.k8s.io/v1/leases`, { ca, token: tokens.admin })
    expect(leases.text).toContain('holderIdentity')
  })

  it('servers and controllers are scraped, the dashboard is there, and the user of the metrics has no further access', async () => {
    const [server, controller] = [servers[0], controllers[0]]
    const pathOf = (name: string) => {
      const [endpoint] = arrayOf(pick(objects, 'ServiceMonitor', name).spec.endpoints)
      return textOf(fieldsOf(endpoint).path)
    }
    const scraped = await ask(`${server?.url}${pathOf(release.fullname)}`, { ca, token: tokens.metrics })
    expect(scraped.status).toBe(200)
    const fromControllers = await fetch(`${controller?.url}${pathOf(`${release.fullname}-controllers`)}`)
    const roleOf = (text: string) => /^setpoint_build_info\{.*role="(\w+)"\} 1$/m.exec(text)?.[1]
    expect([roleOf(scraped.text), roleOf(await fromControllers.text())]).toEqual(['apiserver', 'controllers'])
    // `monitoring.test.ts` compares its queries with the metrics of servers.
    const dashboard = pick(objects, 'ConfigMap', `${release.fullname}-dashboard`)
    expect(JSON.parse(textOf(fieldsOf(dashboard.raw.data)['setpoint.json']))).toMatchObject({
      uid: 'setpoint',
    })
    const gadgets = `${server?.url}/x/apis/demo.example.com/v1/gadgets`
    const { metrics: token } = tokens
    expect((await ask(gadgets, { ca, token })).status).toBe(403)
    expect((await ask(gadgets, { ca, token, body: {} })).status).toBe(403)
  })

  it('`helm test` passes, and fails with a wrong token', async () => {
    const { container } = podOf(objects, 'Pod', `${release.fullname}-test`)
    const [program, ...command] = [...arrayOf(container.command), ...arrayOf(container.args)].map(textOf)
    expect(program).toBe('node')
    const address = textOf(
      arrayOf(container.env)
        .map(fieldsOf)
        .find(({ name }) => name === 'SERVER')?.value,
    )
    const [there = ''] = [...addresses.keys()].filter(each => address.startsWith(each))
    const SERVER = address.replace(there, addresses.get(there) ?? '')
    const NODE_EXTRA_CA_CERTS = certificates.ca
    const SERVICE_ACCOUNT = 'setpoint-system/controllers'
    const test = (TOKEN: string, ISSUER_TOKEN: string) =>
      run(process.execPath, command, {
        env: { SERVER, TOKEN, SERVICE_ACCOUNT, ISSUER_TOKEN, NODE_EXTRA_CA_CERTS },
      })
    const { stdout } = await test(tokens.admin, tokens.issuer)
    expect(stdout).toContain('/apis with the token: 200')
    expect(stdout).toContain('serviceaccounts/controllers/token with the token: 201')
    await expect(test('wrong', tokens.issuer)).rejects.toThrow('/apis with the token: 401 instead of 200')
    await expect(test(tokens.admin, tokens.metrics)).rejects.toThrow('403 instead of 201')
  })

  it("the image's health check reaches the program over HTTPS below a base path, and fails elsewhere", async () => {
    const check = (SETPOINT_LISTEN: string) =>
      run(process.execPath, [join(root, 'scripts/container-health.mjs')], {
        env: { SETPOINT_LISTEN, SETPOINT_BASE_PATH: '/x/' },
      })
    const { port } = new URL(servers[0]?.url ?? '')
    await check(`0.0.0.0:${port}`)
    await expect(check('127.0.0.1:1')).rejects.toThrow('ECONNREFUSED')
  })

  it('on SIGTERM every process exits, and none has written outside its volumes', async () => {
    const all = [...controllers.splice(0), ...servers.splice(0)]
    for (const process of all) {
      expect(await process.strayFiles()).toEqual([])
      for (const { stderr } of [{ stderr: process.log }, ...process.sidecars])
        for (const token of Object.values(tokens)) expect(stderr).not.toContain(token)
      expect((await process.stop()).code).toBe(0)
    }
  })
})

it('a full etcd stays ready, so that an upgrade can raise its quota, and refuses writes', async () => {
  const { objects } = await render({ etcd: { bundled: { quotaBytes: 16 * 1024 * 1024 } } })
  const name = `${release.fullname}-etcd`
  const around: Surroundings = { objects, secrets: {}, addresses: new Map() }
  const texts = secretTexts(`${name}-client`, around)
  const client = { cert: textOf(texts['tls.crt']), key: textOf(texts['tls.key']) }
  const etcd = await EtcdPods.start(pick(objects, 'StatefulSet', name), around)
  try {
    const put = (n: number) => {
      const body = { key: btoa(`fill${n}`), value: 'A'.repeat(1024 * 1024) }
      const url = `https://${etcd.members[0]?.client}/v3/kv/put`
      return ask(url, { ca: textOf(texts['ca.crt']), certificate: client, body })
    }
    let n = 0
    while ((await put(n)).status === 200) expect(++n).toBeLessThan(64)
    expect((await put(n)).text).toContain('database space exceeded')
    for (const { metrics } of etcd.members) {
      // Only a write shows that the alarm is on.
      await eventually(async () => expect((await fetch(`http://${metrics}/health`)).status).toBe(503))
      expect((await fetch(etcd.readiness(metrics))).status).toBe(200)
    }
  } finally {
    await etcd.stop()
  }
})

it('a process with the embedded store runs with the rendered arguments and stores on its volume', async () => {
  const { objects } = await render({ store: 'embedded', plugins: { dirs: ['/app/plugins/uptime'] } })
  const around: Surroundings = { objects, secrets: {}, addresses: new Map([['=/app/', `=${root}`]]) }
  const process = await PodProcess.start(podOf(objects, 'Deployment', release.fullname), around)
  try {
    await eventually(async () => expect((await fetch(process.probe('readinessProbe'))).status).toBe(200))
    const token = textOf(secretTexts(`${release.fullname}-tokens`, around)['admin-token'])
    const probes = `${process.url}/apis/uptime.example.com/v1alpha1/probes`
    expect((await fetch(probes)).status).toBe(401)
    await eventually(async () =>
      expect((await fetch(probes, { headers: { authorization: `Bearer ${token}` } })).status).toBe(200),
    )
    expect(await process.strayFiles()).toEqual([])
  } finally {
    expect((await process.stop()).code).toBe(0)
  }
})
