import { execFile } from 'node:child_process'
import { createHash, createPrivateKey, X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { load, loadAll } from 'js-yaml'
import { beforeAll, describe, expect, it } from 'vitest'
import { type CommandName, environmentName } from '../apiserver/src/cli/flag.ts'
import { parseCommandLine } from '../apiserver/src/cli/flags.ts'
import { flagsOf } from '../apiserver/src/cli/flags-table.ts'
import { findHelm } from '../scripts/kubernetes-tools.mjs'
import { FakeCluster, type Present } from './support/fake-cluster.ts'
import {
  helm,
  KubernetesObject,
  type Pod,
  pick,
  podOf,
  type Rendered,
  release,
  render,
  selects,
} from './support/helm.ts'
import { arrayOf, type Fields, fieldsOf, textOf } from './support/json.ts'
import { problemsOf } from './support/manifests.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

const external = {
  endpoints: ['https://a.example.com:2379', 'https://b.example.com:2379'],
  bundled: { enabled: false },
}
const mounted = {
  dirs: ['/app/plugins/own', '/plugins/mine'],
  volume: { persistentVolumeClaim: { claimName: 'mine' } },
}
const place = {
  nodeSelector: { disk: 'fast' },
  tolerations: [{ key: 'only', operator: 'Exists', effect: 'NoSchedule' }],
  affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } },
  priorityClassName: 'high',
  podAnnotations: { why: 'because' },
}
const sha256 = 'a'.repeat(64)

/** Values that operators would write, with the Secrets that they refer to. */
const matrix: Readonly<Record<string, object>> = {
  'the defaults': {},
  'an etcd of ours': { etcd: { endpoints: ['http://a.example.com:2379'], bundled: { enabled: false } } },
  'an etcd of ours with TLS': { etcd: { ...external, tls: { secretName: 'etcd-ca' } } },
  'an etcd of ours with TLS, client certificate and password': {
    etcd: {
      ...external,
      prefix: '/one',
      tls: { secretName: 'etcd-tls', clientCertificate: true, caKey: 'root.pem' },
      auth: { secretName: 'etcd-login' },
    },
  },
  "the chart's etcd with certificates of ours": {
    etcd: { bundled: { tls: { memberSecretName: 'etcd-member', clientSecretName: 'etcd-client' } } },
  },
  'one process with the embedded store': { store: 'embedded' },
  'the embedded store on a claim that exists': {
    store: 'embedded',
    settings: { 'compact-store': true },
    apiserver: { replicas: 1 },
    embedded: { persistence: { existingClaim: 'old' } },
  },
  'the embedded store with HTTPS and a class of storage': {
    store: 'embedded',
    tls: { secretName: 'tls' },
    embedded: { persistence: { storageClassName: 'fast', size: '1Gi' } },
  },
  'backups, with HTTPS': {
    tls: { secretName: 'tls' },
    networkPolicy: { from: [{ namespaceSelector: {} }] },
    backup: { enabled: true, ...place },
  },
  'backups of the embedded store on a volume of ours': {
    store: 'embedded',
    backup: { enabled: true, schedule: '@hourly', volume: { nfs: { server: '192.0.2.1', path: '/b' } } },
  },
  HTTPS: { tls: { secretName: 'tls' } },
  'HTTPS with a public authority': { tls: { secretName: 'tls', caKey: '' } },
  'an Ingress': {
    basePath: '/setpoint',
    ingress: { enabled: true, className: 'nginx', hosts: ['a.example.com', 'b.example.com'] },
  },
  'an Ingress with TLS before HTTPS': {
    tls: { secretName: 'tls' },
    ingress: {
      enabled: true,
      hosts: ['a.example.com'],
      tls: [{ secretName: 'front', hosts: ['a.example.com'] }],
      annotations: { 'nginx.ingress.kubernetes.io/proxy-read-timeout': '60' },
    },
  },
  autoscaling: { apiserver: { autoscaling: { enabled: true, minReplicas: 3, maxReplicas: 9 } } },
  'plugins from a volume': { plugins: mounted },
  'plugins of the image, chosen': { plugins: { dirs: ['/app/plugins/own'] } },
  monitoring: {
    serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
    dashboard: { enabled: true },
  },
  'monitoring of HTTPS below a path': {
    basePath: '/x',
    tls: { secretName: 'tls' },
    serviceMonitor: { enabled: true },
  },
  'monitoring of the embedded store': { store: 'embedded', serviceMonitor: { enabled: true } },
  'tokens of ours': { access: { existingSecret: 'our-tokens' } },
  'more users': { access: { users: [{ user: 'ann', groups: ['setpoint:viewers'], sha256 }] } },
  'single sign-on with a public authority': {
    access: { oidc: { issuer: 'https://login.example.com', audience: 'setpoint' } },
  },
  'single sign-on, certificates of clients and pages': {
    tls: { secretName: 'tls' },
    access: {
      oidc: {
        issuer: 'https://login.example.com/realms/one#two',
        audience: 'setpoint',
        usernameClaim: 'email',
        usernamePrefix: 'oidc:',
        groupsClaim: 'roles',
        groupsPrefix: '-',
        caSecretName: 'provider-ca',
      },
      clientCa: { secretName: 'client-ca', key: 'root.pem' },
      allowedOrigins: ['https://console.example.com', '*.example.org'],
    },
  },
  'webhooks of services and at addresses': {
    webhooks: {
      services: { 'shop/images': 'https://images.shop.svc:8443', 'shop/limits': 'https://limits.shop.svc' },
      allowedHosts: ['*.example.com'],
      deniedNetworks: ['10.0.0.0/8'],
      allowedNetworks: ['10.1.0.0/16'],
    },
    networkPolicy: { egress: { enabled: true } },
  },
  'an audit log': { audit: { enabled: true } },
  'an audit log with a policy and a webhook': {
    audit: {
      enabled: true,
      policy: { apiVersion: 'audit.k8s.io/v1', kind: 'Policy', rules: [{ level: 'Metadata' }] },
      volume: { persistentVolumeClaim: { claimName: 'audit' } },
      maxSize: 1_000_000,
      maxBackups: 0,
      webhook: {
        url: 'https://audit.example.com/events',
        tokenSecretName: 'audit-login',
        caSecretName: 'audit-ca',
      },
    },
  },
  'closed networks': {
    networkPolicy: {
      from: [{ namespaceSelector: { matchLabels: { team: 'a' } } }],
      metricsFrom: [{ namespaceSelector: { matchLabels: { name: 'monitoring' } } }],
    },
  },
  'nothing that can be left out': {
    networkPolicy: { enabled: false },
    serviceAccount: { create: false },
    apiserver: { podDisruptionBudget: false, topologySpread: [], preStopSeconds: 0, replicas: 1 },
    controllers: { podDisruptionBudget: false, topologySpread: [], replicas: 0 },
    etcd: { bundled: { podDisruptionBudget: false, topologySpread: [] } },
  },
  'everything about where to run': {
    image: { repository: 'example.com/setpoint', tag: '1.2.3', pullSecrets: [{ name: 'pull' }] },
    apiserver: {
      ...place,
      podLabels: { team: 'a' },
      replicas: 5,
      listenAddress: '[::]',
      extraEnv: [{ name: 'NODE_OPTIONS', value: '--max-old-space-size=1500' }],
    },
    controllers: { ...place, podLabels: { team: 'a' }, extraEnv: [{ name: 'TZ', value: 'UTC' }] },
    etcd: {
      bundled: {
        ...place,
        persistence: { storageClassName: 'fast', size: '50Gi' },
        quotaBytes: 8_589_934_592,
        initialClusterState: 'existing',
      },
    },
    service: { type: 'LoadBalancer', port: 443, annotations: { a: 'b' } },
  },
  'every setting': {
    logLevel: 'debug',
    settings: {
      'audit-log-maxage': 30,
      'compact-store': false,
      'grant-plugins': true,
      'kubernetes-kinds': false,
      'lease-duration': 30,
      'log-format': 'json',
      'max-watches': 1_000_000,
      'max-watches-per-user': 500,
      'reserved-domain': 'control.example.com',
      'slow-request-ms': 250,
    },
    controllers: { lease: 'mine', serviceAccount: 'team-a/uptime.controllers', collector: false },
    fullnameOverride: 'a-name-that-is-much-too-long-for-what-kubernetes-takes',
  },
}

/** Secrets and claims that the values above refer to. */
const given = new Set([
  ...['etcd-ca', 'etcd-tls', 'etcd-login', 'etcd-member', 'etcd-client'],
  ...['tls', 'our-tokens', 'old', 'mine', 'provider-ca', 'client-ca'],
  ...['audit', 'audit-login', 'audit-ca'],
])

const rendered = new Map<string, Rendered>()
beforeAll(async () => {
  for (const [name, values] of Object.entries(matrix)) rendered.set(name, await render(values))
})

function objectsOf(name: string): readonly KubernetesObject[] {
  const found = rendered.get(name)
  if (found === undefined) throw new Error(`nothing was rendered with ${name}`)
  return found.objects
}

const podsOf = (objects: readonly KubernetesObject[]) => objects.flatMap(({ pod }) => pod ?? [])
/** Returns each pod once for each of its containers. */
const containersOf = (objects: readonly KubernetesObject[]) =>
  podsOf(objects).flatMap(pod => [pod, ...pod.sidecars])
const probesOf = ({ container }: Pod) =>
  ['startupProbe', 'livenessProbe', 'readinessProbe'].flatMap(name => {
    const probe = container[name]
    return probe === undefined ? [] : [fieldsOf(fieldsOf(probe).httpGet ?? fieldsOf(probe).tcpSocket)]
  })
/** Returns the text of the configuration file of the program. */
const configOf = (objects: readonly KubernetesObject[]) =>
  textOf(
    objects
      .filter(({ kind }) => kind === 'ConfigMap')
      .map(({ raw }) => fieldsOf(raw.data)['setpoint.yaml'])
      .find(text => text !== undefined),
  )
const matchLabels = (selector: unknown) => fieldsOf(fieldsOf(selector).matchLabels)

/** Renders an upgrade in a cluster that has these objects. */
async function renderedAmong(
  values: object,
  present: readonly Present[],
): Promise<readonly KubernetesObject[]> {
  const cluster = await FakeCluster.start(objectsOf('the defaults'), present)
  try {
    return (await render(values, ['--dry-run=server', '--kube-apiserver', cluster.url])).objects
  } finally {
    await cluster.stop()
  }
}

describe('the chart', () => {
  it('waits long for a server to be ready, and restarts none meanwhile', () => {
    const { spec, pod } = pick(objectsOf('the defaults'), 'Deployment', release.fullname)
    const [startup, liveness, readiness] = pod === undefined ? [] : probesOf(pod)
    expect([startup?.path, liveness?.path, readiness?.path]).toEqual(['/livez', '/livez', '/readyz'])
    expect(spec.progressDeadlineSeconds).toBe(1_800)
  })

  it('passes helm lint --strict', async () => {
    for (const name of ['the defaults', 'one process with the embedded store', 'monitoring', 'HTTPS']) {
      const { code, stdout, stderr } = await helm('lint', matrix[name] ?? {}, [
        '--strict',
        '--kube-version',
        '1.31.0',
      ])
      expect(`${code} ${stdout}${stderr}`).toMatch(/^0 [\s\S]*0 chart\(s\) failed/)
    }
  })

  it('renders only kinds and fields that Kubernetes has', async () => {
    const manifests = [...rendered].map(([name, { yaml }]) => ({ name, yaml }))
    expect(await problemsOf(manifests)).toEqual([])
    const wrong = [
      ['apiVersion: v1\nkind: Service\nspec: {port: []}\n', "does not exist in type 'ServiceSpec'"],
      [
        'apiVersion: v1\nkind: Service\nspec: {ports: [{port: "80"}]}\n',
        "'string' is not assignable to type 'number'",
      ],
      ['apiVersion: apps/v1\nkind: Service\n', "has no exported member 'Service'"],
      ['apiVersion: apps/v9\nkind: Deployment\n', "Cannot find module 'unknown apiVersion apps/v9'"],
    ] as const
    const problems = await problemsOf(wrong.map(([yaml]) => ({ name: 'x', yaml })))
    expect(problems).toEqual(wrong.map(([, problem]) => expect.stringContaining(problem)))
  })

  it('gives every object of a kind a unique name within the length limit', () => {
    for (const [, { objects }] of rendered) {
      const names = objects.map(({ kind, name }) => `${kind} ${name}`)
      expect(new Set(names).size).toBe(names.length)
      // A ReplicaSet and its pods append 17 characters to the name.
      for (const { name } of objects) expect(name.length).toBeLessThanOrEqual(63 - 5)
      for (const { pod, name } of objects) if (pod) expect(name.length).toBeLessThanOrEqual(63 - 11)
    }
  })
})

describe('settings', () => {
  it('are all flags of `serve` that the chart does not set itself', async () => {
    // The chart mounts the file with the password, and a ConfigMap is no place for a secret. It mounts the file with
    // the keys, too.
    const own = new Set(['etcd-password', 'encryption-provider-config'])
    const variables = new Map(flagsOf('serve').map(flag => [environmentName(flag, 'serve'), flag.name]))
    for (const { objects } of rendered.values()) {
      for (const { args, env } of containersOf(objects).filter(({ args }) => args[0] === 'serve')) {
        for (const arg of args.slice(1)) own.add(/^--([a-z-]+)=/.exec(arg)?.[1] ?? arg)
        for (const { name } of env) own.add(variables.get(textOf(name)) ?? '')
      }
    }
    for (const name of Object.keys(fieldsOf(load(configOf(objectsOf('the defaults')))))) own.add(name)
    const schema = load(await readFile(`${root}charts/setpoint/values.schema.json`, 'utf8'))
    const { settings } = fieldsOf(fieldsOf(schema).properties)
    const others = flagsOf('serve').flatMap(({ name }) => (own.has(name) ? [] : [name]))
    expect(Object.keys(fieldsOf(fieldsOf(settings).properties))).toEqual(others.toSorted())
  })

  it('reach the program with the meaning that they have in the values', () => {
    expect(load(configOf(objectsOf('every setting')))).toMatchObject({
      'compact-store': 'false',
      'grant-plugins': 'true',
      'lease-duration': '30',
      'max-watches': '1000000',
    })
    const config = configOf(objectsOf('the embedded store on a claim that exists'))
    const args = ['serve', '--store=embedded', '--config=setpoint.yaml']
    expect(parseCommandLine(args, {}, () => config)).toMatchObject({ options: { store: { compact: true } } })
  })
})

describe.each(Object.keys(matrix))('with %s', name => {
  it('every selector matches exactly its own pods', () => {
    const objects = objectsOf(name)
    for (const { kind, name, spec, pod, labels } of objects.filter(({ raw }) => raw.spec !== undefined)) {
      const selected = (selector: Fields) => podsOf(objects).filter(each => selects(selector, each.labels))
      if (kind === 'Deployment' || kind === 'StatefulSet') {
        expect(selected(matchLabels(spec.selector))).toEqual([expect.objectContaining({ spec: pod?.spec })])
        for (const spread of arrayOf(pod?.spec.topologySpreadConstraints ?? []))
          expect(matchLabels(fieldsOf(spread).labelSelector)).toEqual(matchLabels(spec.selector))
      }
      if (kind === 'Service') expect(selected(fieldsOf(spec.selector)), name).toHaveLength(1)
      if (kind === 'PodDisruptionBudget') expect(selected(matchLabels(spec.selector)), name).toHaveLength(1)
      if (kind === 'NetworkPolicy') expect(selected(matchLabels(spec.podSelector)), name).toHaveLength(1)
      if (kind === 'HorizontalPodAutoscaler') {
        const { kind, name } = fieldsOf(spec.scaleTargetRef)
        expect(pick(objects, textOf(kind), textOf(name)).spec.replicas).toBeUndefined()
      }
      if (kind === 'ServiceMonitor') {
        const selector = matchLabels(spec.selector)
        const services = objects.filter(each => each.kind === 'Service' && selects(selector, each.labels))
        expect(services.map(each => each.name)).toEqual([name])
        expect(labels).toMatchObject(selector)
      }
    }
  })

  it('the ports of the program, container, probes, services and policies agree', () => {
    const objects = objectsOf(name)
    for (const pod of podsOf(objects)) {
      for (const { port } of probesOf(pod)) expect([...pod.ports.keys()]).toContain(port)
      const listens = pod.flag('listen') ?? pod.flag('health-listen')
      if (listens !== undefined) expect([...pod.ports.values()]).toEqual([Number(listens.split(':').at(-1))])
    }
    for (const { kind, spec } of objects.filter(({ raw }) => raw.spec !== undefined)) {
      if (kind === 'Service') {
        const pod = podsOf(objects).find(({ labels }) => selects(fieldsOf(spec.selector), labels))
        for (const port of arrayOf(spec.ports).map(fieldsOf)) {
          const target = pod?.ports.get(textOf(port.targetPort))
          expect(target).toBeDefined()
          // Behind a headless service, a client connects to the pod's own port.
          if (spec.clusterIP === 'None') expect(port.port).toBe(target)
        }
      }
      if (kind === 'NetworkPolicy') {
        const pod = podsOf(objects).find(({ labels }) => selects(matchLabels(spec.podSelector), labels))
        const ports = arrayOf(spec.ingress)
          .flatMap(rule => arrayOf(fieldsOf(rule).ports))
          .map(fieldsOf)
        expect(new Set(ports.map(({ port }) => port))).toEqual(new Set(pod?.ports.keys()))
      }
      if (kind === 'Ingress') {
        const rules = arrayOf(spec.rules).map(rule => fieldsOf(fieldsOf(rule).http))
        const backends = rules
          .flatMap(({ paths }) => arrayOf(paths))
          .map(path => fieldsOf(fieldsOf(path).backend))
        for (const { service } of backends) {
          const ports = arrayOf(pick(objects, 'Service', textOf(fieldsOf(service).name)).spec.ports).map(
            fieldsOf,
          )
          expect(ports.map(({ name }) => name)).toContain(fieldsOf(fieldsOf(service).port).name)
        }
      }
      if (kind === 'ServiceMonitor') {
        const service = objects.find(
          each => each.kind === 'Service' && selects(matchLabels(spec.selector), each.labels),
        )
        const ports = arrayOf(service?.spec.ports).map(fieldsOf)
        for (const { port } of arrayOf(spec.endpoints).map(fieldsOf))
          expect(ports.map(({ name }) => name)).toContain(port)
      }
    }
  })

  it('every file in the flags is mounted from an existing object', () => {
    const objects = objectsOf(name)
    const exists = (kind: string, name: string) =>
      given.has(name) || objects.some(object => object.kind === kind && object.name === name)
    for (const pod of containersOf(objects)) {
      const files = new Set<string>()
      const folders: string[] = []
      for (const { path, volume } of pod.mounts) {
        folders.push(path)
        const { secret, configMap, persistentVolumeClaim } = volume
        if (secret !== undefined) {
          const { secretName, items } = fieldsOf(secret)
          expect(exists('Secret', textOf(secretName)), textOf(secretName)).toBe(true)
          for (const { key, path: file } of arrayOf(items).map(fieldsOf)) {
            files.add(`${path}/${textOf(file)}`)
            const made = objects.find(object => object.kind === 'Secret' && object.name === secretName)
            if (made) expect(fieldsOf(made.raw.stringData)).toHaveProperty([textOf(key)])
          }
        }
        if (configMap !== undefined) {
          const { data } = pick(objects, 'ConfigMap', textOf(fieldsOf(configMap).name)).raw
          for (const key of Object.keys(fieldsOf(data))) files.add(`${path}/${key}`)
        }
        if (persistentVolumeClaim !== undefined) {
          const claim = textOf(fieldsOf(persistentVolumeClaim).claimName)
          expect(exists('PersistentVolumeClaim', claim), claim).toBe(true)
        }
      }
      for (const arg of pod.args) {
        const [, flag = '', path = ''] = /^--([a-z-]+)=(\/.+)$/.exec(arg) ?? []
        if (path.startsWith('/etc/')) expect([...files], arg).toContain(path)
        else if (
          ['data-dir', 'output', 'server-token-file'].includes(flag) ||
          (flag === 'plugin' && !path.startsWith('/app/'))
        )
          expect(
            folders.some(folder => path === folder || path.startsWith(`${folder}/`)),
            arg,
          ).toBe(true)
      }
    }
  })

  it('every flag, variable and configuration key is one that the program accepts', () => {
    const objects = objectsOf(name)
    const namesOf = (command: CommandName) => new Set(flagsOf(command).map(flag => flag.name))
    const flags = namesOf('serve')
    const variablesOf = (command: CommandName) =>
      new Set(flagsOf(command).map(flag => environmentName(flag, command)))
    const programs = containersOf(objects).filter(({ args }) => /^(serve|service-)/.test(args[0] ?? ''))
    expect(programs.length).toBeGreaterThan(0)
    for (const { args, env } of programs) {
      const isServer = args[0] === 'serve'
      const accepted = isServer ? flags : namesOf('service-account-token')
      for (const arg of args.slice(isServer ? 1 : 2))
        expect(accepted).toContain(/^--([a-z-]+)=/.exec(arg)?.[1])
      const variables = variablesOf(isServer ? 'serve' : 'service-account-token')
      for (const { name } of env) if (textOf(name).startsWith('SETPOINT_')) expect(variables).toContain(name)
    }
    for (const { kind, raw } of objects) {
      const config = kind === 'ConfigMap' ? fieldsOf(raw.data)['setpoint.yaml'] : undefined
      if (config === undefined) continue
      for (const [key, value] of Object.entries(fieldsOf(load(textOf(config))))) {
        expect(flags).toContain(key)
        expect(value).not.toMatch(/e\+/)
      }
    }
  })

  it('no container runs as root, can become root, or can write outside its volumes', () => {
    for (const { spec, container } of containersOf(objectsOf(name))) {
      const numbers = { runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000 }
      expect(spec.securityContext).toMatchObject({ ...numbers, seccompProfile: { type: 'RuntimeDefault' } })
      expect(container.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      })
      expect(container.resources).toMatchObject({ requests: {}, limits: {} })
      expect(spec.automountServiceAccountToken).toBe(false)
    }
  })
})

describe('access', () => {
  it('is configured for the servers only, with quoted values and mounted authorities', () => {
    const objects = objectsOf('single sign-on, certificates of clients and pages')
    const { args } = podOf(objects, 'Deployment', release.fullname)
    expect(args.filter(arg => /^--(oidc|client|allowed)-/.test(arg)).sort()).toEqual([
      '--allowed-origin=*.example.org',
      '--allowed-origin=https://console.example.com',
      '--client-ca=/etc/setpoint/client-ca/ca.crt',
      '--oidc-audience=setpoint',
      '--oidc-ca=/etc/setpoint/oidc-ca/ca.crt',
      '--oidc-groups-claim=roles',
      '--oidc-groups-prefix=-',
      '--oidc-issuer=https://login.example.com/realms/one#two',
      '--oidc-username-claim=email',
      '--oidc-username-prefix=oidc:',
    ])
    const controllers = podOf(objects, 'Deployment', `${release.fullname}-controllers`)
    expect(controllers.args.filter(arg => /oidc|client-ca|allowed/.test(arg))).toEqual([])
    const defaults = podOf(objectsOf('the defaults'), 'Deployment', release.fullname)
    expect(defaults.args.filter(arg => /oidc|client-ca|allowed/.test(arg))).toEqual([])
  })
})

describe('webhooks', () => {
  it('may be where the values say', () => {
    const objects = objectsOf('webhooks of services and at addresses')
    const { args } = podOf(objects, 'Deployment', release.fullname)
    expect(args.filter(arg => arg.startsWith('--webhook')).sort()).toEqual([
      '--webhook-allowed-host=*.example.com',
      '--webhook-allowed-network=10.1.0.0/16',
      '--webhook-denied-network=10.0.0.0/8',
      '--webhook-service=shop/images=https://images.shop.svc:8443',
      '--webhook-service=shop/limits=https://limits.shop.svc',
    ])
    expect(arrayOf(pick(objects, 'NetworkPolicy', release.fullname).spec.egress)).toContainEqual({
      ports: [
        { port: 8443, protocol: 'TCP' },
        { port: 443, protocol: 'TCP' },
      ],
    })
    const controllers = podOf(objects, 'Deployment', `${release.fullname}-controllers`)
    expect(controllers.args.filter(arg => arg.startsWith('--webhook'))).toEqual([])
  })
})

describe('the audit log', () => {
  const name = 'an audit log with a policy and a webhook'

  it('is a file for each pod, and a webhook with a token', () => {
    const { args } = podOf(objectsOf(name), 'Deployment', release.fullname)
    expect(args.filter(arg => arg.startsWith('--audit')).sort()).toEqual([
      '--audit-log-maxbackup=0',
      '--audit-log-maxsize=1000000',
      '--audit-log=/var/log/setpoint/$(POD_NAME).log',
      '--audit-policy=/etc/setpoint/config/audit-policy.yaml',
      '--audit-webhook-ca=/etc/setpoint/audit-ca/ca.crt',
      '--audit-webhook-token-file=/etc/setpoint/audit-token/token',
      '--audit-webhook=https://audit.example.com/events',
    ])
    const defaults = podOf(objectsOf('the defaults'), 'Deployment', release.fullname)
    expect(defaults.args.filter(arg => arg.startsWith('--audit'))).toEqual([])
  })

  it('has a policy that the program takes', () => {
    const { raw } = pick(objectsOf(name), 'ConfigMap', release.fullname)
    const policy = textOf(fieldsOf(raw.data)['audit-policy.yaml'])
    const args = ['serve', '--audit-log', '/tmp/audit.log', '--audit-policy', 'policy.yaml']
    expect(parseCommandLine(args, {}, () => policy)).toMatchObject({ command: 'serve' })
  })
})

describe('tokens', () => {
  const keysOf = (pod: Pod) =>
    pod.mounts
      .flatMap(({ volume }) => (volume.secret === undefined ? [] : [fieldsOf(volume.secret)]))
      .flatMap(({ items }) => arrayOf(items).map(item => textOf(fieldsOf(item).key)))

  it('reach the servers only as hashes, and the sidecar of the controllers gets only its own', () => {
    for (const [, { objects }] of rendered) {
      for (const { kind, name, pod } of objects) {
        if (pod === undefined || kind === 'Pod') continue
        // The key `token` is that of a receiver of audit events.
        const tokens = (pod: Pod) => keysOf(pod).filter(key => /token/.test(key) && key !== 'token')
        const isServer = kind === 'Deployment' && !name.endsWith('-controllers')
        expect(tokens(pod)).toEqual(isServer ? ['tokens.yaml'] : [])
        expect(pod.sidecars.flatMap(tokens)).toEqual(
          name.endsWith('-controllers') ? ['controllers-token'] : [],
        )
      }
    }
  })

  it('of the container with plugins is one of the sidecar, on a volume in memory; it mounts no Secret', () => {
    for (const [name, { objects }] of rendered) {
      const deployment = objects.find(
        object => object.name.endsWith('-controllers') && object.kind === 'Deployment',
      )
      const { pod } = deployment ?? {}
      if (pod === undefined) continue
      const [sidecar, ...more] = pod.sidecars
      expect(more).toEqual([])
      // The certificate of an authority is no secret.
      expect(keysOf(pod), name).toEqual(keysOf(pod).filter(key => key === 'ca.crt'))
      expect(JSON.stringify(pod.env)).not.toContain('secretKeyRef')
      expect(pod.flag('server-token-file')).toBe(sidecar?.flag('output'))
      const folder = dirname(pod.flag('server-token-file') ?? '')
      const volume = pod.mounts.find(({ path }) => path === folder)?.volume
      expect(volume?.emptyDir).toEqual({ medium: 'Memory', sizeLimit: '1Mi' })
      expect(sidecar?.mounts.find(({ path }) => path === folder)?.volume).toEqual(volume)
      expect(fieldsOf(sidecar?.container.startupProbe).exec).toEqual({
        command: ['test', '-s', sidecar?.flag('output')],
      })
    }
  })

  it('of the controllers are those of the account that is configured', () => {
    const objects = objectsOf('every setting')
    const [tokens] = objects.filter(({ kind, name }) => kind === 'Secret' && name.endsWith('-tokens'))
    expect(tokens?.raw.stringData).toMatchObject({
      'tokens.yaml': expect.stringContaining('groups: [setpoint:token-issuers:team-a:uptime.controllers]'),
    })
    const [deployment] = objects.filter(
      ({ kind, name }) => kind === 'Deployment' && name.endsWith('-controllers'),
    )
    expect(deployment?.pod?.sidecars[0]?.args[1]).toBe('team-a/uptime.controllers')
    expect(deployment?.pod?.flag('collector')).toBe('false')
  })

  it('are generated at the first installation, with 256 bits each and the right hashes', async () => {
    const tokensOf = (objects: readonly KubernetesObject[]) =>
      fieldsOf(pick(objects, 'Secret', `${release.fullname}-tokens`).raw.stringData)
    const tokens = tokensOf(objectsOf('more users'))
    const entries = arrayOf(load(textOf(tokens['tokens.yaml']))).map(fieldsOf)
    const groups = {
      admin: 'setpoint:admins',
      controllers: 'setpoint:token-issuers:setpoint-system:controllers',
      metrics: 'setpoint:metrics-readers',
    } as const
    expect(entries).toEqual([
      ...(['admin', 'controllers', 'metrics'] as const).map(user => ({
        user: user === 'controllers' ? 'controllers-token-issuer' : user,
        groups: [groups[user]],
        sha256: createHash('sha256')
          .update(textOf(tokens[`${user}-token`]))
          .digest('hex'),
      })),
      { user: 'ann', groups: ['setpoint:viewers'], sha256 },
    ])
    const all = ['admin-token', 'controllers-token', 'metrics-token'].map(key => textOf(tokens[key]))
    for (const token of all) expect(token).toMatch(/^sp_[A-Za-z0-9]{43}$/)
    expect(new Set([...all, textOf(tokensOf(objectsOf('the defaults'))['admin-token'])]).size).toBe(4)
  })

  it('are kept by an upgrade if the Secret has them', async () => {
    const data = { 'admin-token': 'sp_kept', 'metrics-token': 'sp_too' }
    const encoded = Object.entries(data).map(([key, token]) => [key, Buffer.from(token).toString('base64')])
    const metadata = { namespace: release.namespace, name: `${release.fullname}-tokens` }
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata, data: Object.fromEntries(encoded) }
    const objects = await renderedAmong({}, [secret])
    const now = fieldsOf(pick(objects, 'Secret', `${release.fullname}-tokens`).raw.stringData)
    expect(now).toMatchObject(data)
    expect(now['controllers-token']).toMatch(/^sp_[A-Za-z0-9]{43}$/)
    expect(now['tokens.yaml']).toContain(createHash('sha256').update('sp_kept').digest('hex'))
  })

  it("replace the controllers' token of a chart whose plugins could read it, once", async () => {
    const name = `${release.fullname}-tokens`
    const metadata = { namespace: release.namespace, name }
    const upgraded = async (texts: Fields) => {
      const encoded = Object.entries(texts).map(([key, text]) => [
        key,
        Buffer.from(textOf(text)).toString('base64'),
      ])
      const secret = { apiVersion: 'v1', kind: 'Secret', metadata, data: Object.fromEntries(encoded) }
      return fieldsOf(pick(await renderedAmong({}, [secret]), 'Secret', name).raw.stringData)
    }
    const before = {
      'tokens.yaml': '- user: controllers\n  groups: [setpoint:controllers]\n',
      'admin-token': 'sp_admin',
      'controllers-token': 'sp_read_by_plugins',
      'metrics-token': 'sp_metrics',
    }
    const first = await upgraded(before)
    expect(first).toMatchObject({ 'admin-token': 'sp_admin', 'metrics-token': 'sp_metrics' })
    expect(first['controllers-token']).toMatch(/^sp_[A-Za-z0-9]{43}$/)
    expect(first['tokens.yaml']).not.toContain(
      createHash('sha256').update('sp_read_by_plugins').digest('hex'),
    )
    expect(await upgraded(first)).toEqual(first)
  })

  it('are not generated if a Secret is given', () => {
    const secrets = objectsOf('tokens of ours').filter(({ kind }) => kind === 'Secret')
    for (const { name } of secrets) expect(name).toMatch(/^rel-setpoint-etcd-(member|client)$/)
    expect(rendered.get('tokens of ours')?.yaml).not.toContain('sp_')
  })
})

describe("the certificates of the chart's etcd", () => {
  const member = `${release.fullname}-etcd-member`
  const client = `${release.fullname}-etcd-client`
  const textsOf = (objects: readonly KubernetesObject[], name: string) => {
    const { raw } = pick(objects, 'Secret', name)
    expect(raw.type).toBe('kubernetes.io/tls')
    const texts = fieldsOf(raw.stringData)
    expect(Object.keys(texts).sort()).toEqual(['ca.crt', 'tls.crt', 'tls.key'])
    return { ca: textOf(texts['ca.crt']), cert: textOf(texts['tls.crt']), key: textOf(texts['tls.key']) }
  }
  /** Both Secrets as the cluster stores them, without some parts. */
  const present = (objects: readonly KubernetesObject[], names: readonly string[]) =>
    names.map(name => {
      const texts = Object.entries(fieldsOf(pick(objects, 'Secret', name).raw.stringData))
      const data = texts.map(([key, text]) => [key, Buffer.from(textOf(text)).toString('base64')])
      const metadata = { namespace: release.namespace, name }
      return { apiVersion: 'v1', kind: 'Secret', metadata, data: Object.fromEntries(data) }
    })

  it('come from one CA whose key is not kept, last ten years, and name every member', () => {
    const objects = objectsOf('the defaults')
    const hosts = [0, 1, 2].map(i => `rel-setpoint-etcd-${i}.rel-setpoint-etcd.ns.svc`)
    for (const name of [member, client]) {
      const { ca, cert, key } = textsOf(objects, name)
      const authority = new X509Certificate(ca)
      const certificate = new X509Certificate(cert)
      expect(authority.ca).toBe(true)
      expect(certificate.checkIssued(authority) && certificate.verify(authority.publicKey)).toBe(true)
      expect(certificate.checkPrivateKey(createPrivateKey(key))).toBe(true)
      expect(authority.checkPrivateKey(createPrivateKey(key))).toBe(false)
      const days = (Date.parse(certificate.validTo) - Date.parse(certificate.validFrom)) / 86_400_000
      expect(days).toBe(3_650)
      for (const host of hosts) expect(certificate.checkHost(host)).toBe(name === member ? host : undefined)
      expect(certificate.checkIP('127.0.0.1')).toBe(name === member ? '127.0.0.1' : undefined)
    }
    expect(textsOf(objects, member).ca).toBe(textsOf(objects, client).ca)
    // Each address that others use is one of the names and uses TLS.
    const set = podOf(objects, 'StatefulSet', `${release.fullname}-etcd`)
    const endpoints = podOf(objects, 'Deployment', release.fullname).flag('etcd-endpoints')
    expect(endpoints?.split(',')).toEqual(hosts.map(host => `https://${host}:2379`))
    const cluster = hosts.map((host, i) => `rel-setpoint-etcd-${i}=https://${host}:2380`)
    expect(set.flag('initial-cluster')?.split(',')).toEqual(cluster)
    for (const flag of ['advertise-client-urls', 'initial-advertise-peer-urls'])
      expect(set.flag(flag)).toMatch(/^https:\/\/\$\(POD_NAME\)\.rel-setpoint-etcd\.ns\.svc:23(79|80)$/)
    for (const flag of ['listen-client-urls', 'listen-peer-urls']) expect(set.flag(flag)).toMatch(/^https:/)
  })

  it('have the same names as the example for cert-manager', async () => {
    const text = await readFile(new URL('../docs/operations/etcd-certificates.yaml', import.meta.url), 'utf8')
    const specs = new Map(
      loadAll(text)
        .map(document => new KubernetesObject(fieldsOf(document)))
        .map(({ name, spec }) => [name, spec] as const),
    )
    const { dnsNames = [], ipAddresses = [] } = specs.get('setpoint-etcd-member') ?? {}
    const names = [
      ...arrayOf(dnsNames).map(name => `DNS:${textOf(name)}`),
      ...arrayOf(ipAddresses).map(
        address => `IP Address:${textOf(address).replace('::1', '0:0:0:0:0:0:0:1')}`,
      ),
    ]
    const own = new X509Certificate(textsOf(objectsOf('the defaults'), member).cert).subjectAltName
    const renamed = own?.replaceAll('rel-setpoint', 'setpoint').replaceAll('.ns.svc', '.setpoint.svc')
    expect(names.join(', ')).toBe(renamed)
    const readme = await readFile(new URL('../docs/operations/install.md', import.meta.url), 'utf8')
    for (const role of ['member', 'client'])
      expect(readme).toContain(`${role}SecretName: ${textOf(specs.get(`setpoint-etcd-${role}`)?.secretName)}`)
  })

  it('are new for each installation, and are not generated if Secrets are given', () => {
    const others = objectsOf('HTTPS')
    expect(textsOf(others, member).key).not.toBe(textsOf(objectsOf('the defaults'), member).key)
    const ours = objectsOf("the chart's etcd with certificates of ours")
    expect(ours.filter(({ kind }) => kind === 'Secret').map(({ name }) => name)).toEqual([
      `${release.fullname}-tokens`,
    ])
  })

  it('are mounted only in pods that use them', () => {
    for (const name of ['the defaults', "the chart's etcd with certificates of ours"]) {
      const [ofMembers, ofServers] =
        name === 'the defaults' ? [member, client] : ['etcd-member', 'etcd-client']
      const mounted = objectsOf(name).flatMap(({ kind, name, pod }) =>
        (pod?.mounts ?? [])
          .flatMap(({ volume }) => (volume.secret === undefined ? [] : [fieldsOf(volume.secret).secretName]))
          .filter(secret => secret === ofMembers || secret === ofServers)
          .map(secret => [kind, name, secret]),
      )
      expect(mounted.sort()).toEqual([
        ['Deployment', release.fullname, ofServers],
        ['StatefulSet', `${release.fullname}-etcd`, ofMembers],
      ])
    }
  })

  it('are kept by an upgrade', async () => {
    const objects = objectsOf('the defaults')
    const now = await renderedAmong({}, present(objects, [member, client]))
    for (const name of [member, client])
      expect(fieldsOf(pick(now, 'Secret', name).raw.stringData)).toEqual(
        fieldsOf(pick(objects, 'Secret', name).raw.stringData),
      )
  })

  it.each([
    ['one of them is gone', [member]],
    ['they are of two authorities', [member, client]],
  ])('are all made anew where %s: halves would refuse each other', async (why, names) => {
    const secrets = present(objectsOf('the defaults'), names)
    if (why !== 'one of them is gone') secrets.splice(1, 1, ...present(objectsOf('HTTPS'), [client]))
    const now = await renderedAmong({}, secrets)
    const texts = textsOf(now, member)
    expect(texts.key).not.toBe(textsOf(objectsOf('the defaults'), member).key)
    expect(textsOf(now, client).ca).toBe(texts.ca)
  })
})

describe('rendered without access to the cluster', () => {
  /** Argo CD tells Helm which kinds exist, but gives it no access to objects. */
  const elsewhere = ['--api-versions', 'v1/Secret']
  const tls = { memberSecretName: 'etcd-member', clientSecretName: 'etcd-client' }
  it('a Secret that would change with each rendering is refused, with advice', async () => {
    await expect(render({}, elsewhere)).rejects.toThrow(/access\.existingSecret is empty.*--dry-run=server/)
    const tokens = { access: { existingSecret: 'our-tokens' } }
    await expect(render(tokens, elsewhere)).rejects.toThrow(/etcd\.bundled\.tls is empty.*Argo CD/)
  })

  it("the manual's command creates every Secret that its values name", async () => {
    const manual = await readFile(new URL('../docs/operations/install.md', import.meta.url), 'utf8')
    const section = manual.slice(manual.indexOf('## With Argo CD'))
    const [command = '', values = ''] = [...section.matchAll(/^```(?:sh|yaml)\n(.*?)^```$/gms)].map(
      ([, block]) => block,
    )
    const shown = command
      .replace('helm template', `${await findHelm()} template --kube-version 1.31.0`)
      .replace(/kubectl create.*/, 'cat')
    const { stdout } = await promisify(execFile)('bash', ['-c', shown], { cwd: root })
    const secrets = loadAll(stdout).map(document => new KubernetesObject(fieldsOf(document)))
    for (const { kind, labels } of secrets) {
      expect(kind).toBe('Secret')
      // Argo CD finds its own objects to prune by this label.
      expect(labels).not.toHaveProperty(['app.kubernetes.io/instance'])
      expect(labels).toHaveProperty(['app.kubernetes.io/name'])
    }
    const named = [...values.matchAll(/(?:existingSecret|SecretName): ([a-z-]+)/g)].map(([, name]) => name)
    expect(secrets.map(({ name }) => name).sort()).toEqual(named.sort())
    const { objects } = await render(fieldsOf(load(values)), elsewhere)
    const mounted = podsOf(objects).flatMap(({ mounts }) =>
      mounts.flatMap(({ volume }) => volume.secret ?? []),
    )
    const names = mounted.map(secret => fieldsOf(secret).secretName)
    expect(new Set(names)).toEqual(new Set(named))
  })

  it.each([
    ['certificates', { etcd: { bundled: { tls } } }],
    ['an etcd of ours', { etcd: external }],
    ['the embedded store', { store: 'embedded' }],
  ])('every rendering is the same with tokens of ours and %s', async (_, values) => {
    const all = { ...values, access: { existingSecret: 'our-tokens' } }
    const [one, other] = [await render(all, elsewhere), await render(all, elsewhere)]
    expect(one.yaml).toBe(other.yaml)
    expect(one.objects.map(({ kind }) => kind)).not.toContain('Secret')
  })
})

describe('the embedded store', () => {
  it('is one process with every role that never runs twice and keeps its volume', () => {
    const objects = objectsOf('one process with the embedded store')
    const { spec } = pick(objects, 'Deployment', release.fullname)
    expect(spec).toMatchObject({ replicas: 1, strategy: { type: 'Recreate' } })
    const pod = podOf(objects, 'Deployment', release.fullname)
    expect([pod.flag('role'), pod.flag('store'), pod.flag('data-dir')]).toEqual(['all', 'embedded', '/data'])
    const claim = pick(objects, 'PersistentVolumeClaim', `${release.fullname}-data`)
    expect(claim.metadata.annotations).toEqual({ 'helm.sh/resource-policy': 'keep' })
    expect(
      objects
        .filter(({ pod }) => pod !== undefined)
        .map(({ kind }) => kind)
        .sort(),
    ).toEqual(['Deployment', 'Pod'])
  })
})

describe('an upgrade', () => {
  it("replaces no pod if only the chart's version changes", () => {
    const podLabels = { team: 'a' }
    for (const name of [
      'the defaults',
      'one process with the embedded store',
      'everything about where to run',
    ])
      for (const { kind, raw, pod } of objectsOf(name)) {
        if (pod === undefined || kind === 'Pod') continue
        const { selector } = fieldsOf(raw.spec)
        const given = name === 'everything about where to run' && kind === 'Deployment' ? podLabels : {}
        expect(pod.labels).toEqual({ ...matchLabels(selector), ...given })
      }
  })

  /** The servers' replicas after a first installation with these values. */
  const deployed = (name: string, replicas: number) => {
    const { spec } = pick(objectsOf(name), 'Deployment', release.fullname)
    const metadata = { namespace: release.namespace, name: release.fullname }
    return { apiVersion: 'apps/v1', kind: 'Deployment', metadata, spec: { ...spec, replicas } }
  }

  it.each([
    ['one process with the embedded store', {}, 'store: etcd cannot be reached by an upgrade'],
    ['the defaults', { store: 'embedded' }, 'store: embedded cannot be reached by an upgrade'],
    ['the defaults', { etcd: { prefix: '/other' } }, 'etcd.prefix: /other cannot be reached by an upgrade'],
  ])('from %s leaves no object behind: %j', async (name, values, message) => {
    await expect(renderedAmong(values, [deployed(name, 1)])).rejects.toThrow(message)
    await renderedAmong(matrix[name] ?? {}, [deployed(name, 1)])
  })

  it('that enables autoscaling, or finds it enabled, removes no server', async () => {
    const running = deployed('the defaults', 5)
    const now = await renderedAmong({ apiserver: { autoscaling: { enabled: true } } }, [running])
    expect(pick(now, 'Deployment', release.fullname).spec.replicas).toBe(5)
    const first = await renderedAmong({ apiserver: { autoscaling: { enabled: true } } }, [])
    expect(pick(first, 'Deployment', release.fullname).spec.replicas).toBeUndefined()
  })
})

describe('an Ingress', () => {
  it('lets a watch last as long as the server does, unless configured otherwise', () => {
    const annotations = (name: string) =>
      fieldsOf(pick(objectsOf(name), 'Ingress', release.fullname).metadata.annotations)
    // The server ends a watch after at most 60 minutes.
    expect(annotations('an Ingress')).toMatchObject({
      'nginx.ingress.kubernetes.io/proxy-read-timeout': '3700',
      'nginx.ingress.kubernetes.io/proxy-send-timeout': '3700',
    })
    expect(annotations('an Ingress with TLS before HTTPS')).toMatchObject({
      'nginx.ingress.kubernetes.io/proxy-read-timeout': '60',
      'nginx.ingress.kubernetes.io/backend-protocol': 'HTTPS',
    })
  })
})

describe('invalid values', () => {
  const noEtcd = { etcd: { bundled: { enabled: false } } }
  // Helm's releases word violations of the schema differently.
  it.each<[string, object, string | RegExp]>([
    [
      'an issuer without an audience',
      { access: { oidc: { issuer: 'https://a.example' } } },
      'give issuer and audience',
    ],
    ['an audit policy without a destination', { audit: { policy: { rules: [] } } }, 'audit.policy needs'],
    ['claims without an issuer', { access: { oidc: { groupsClaim: 'roles' } } }, 'access.oidc needs issuer'],
    [
      'certificates of clients without HTTPS',
      { access: { clientCa: { secretName: 'ca' } } },
      'needs tls.secretName',
    ],
    ['a service without HTTPS', { webhooks: { services: { 'a/b': 'http://a.example' } } }, /services/],
    ['a service without a namespace', { webhooks: { services: { b: 'https://a.example' } } }, /services/],
    ['an origin with a path', { access: { allowedOrigins: ['https://a.example/'] } }, /allowedOrigins/],
    [
      'two processes on the embedded store',
      { store: 'embedded', apiserver: { replicas: 2 } },
      'with store: embedded there is exactly one process',
    ],
    [
      'autoscaling on the embedded store',
      { store: 'embedded', apiserver: { autoscaling: { enabled: true } } },
      'with store: embedded there is exactly one process',
    ],
    [
      'controllers beside the embedded store',
      { store: 'embedded', controllers: { replicas: 2 } },
      'the one process runs the controllers',
    ],
    [
      'an etcd for the embedded store',
      { store: 'embedded', etcd: { endpoints: ['a:1'] } },
      'store: embedded contradicts etcd.endpoints',
    ],
    ['two kinds of etcd', { etcd: { endpoints: ['a:1'] } }, 'set etcd.bundled.enabled to false'],
    ['no etcd at all', noEtcd, 'there is no etcd: give etcd.endpoints'],
    [
      'TLS towards the etcd of the chart',
      { etcd: { tls: { secretName: 'x' } } },
      'the etcd that the chart brings has etcd.bundled.tls',
    ],
    [
      'half of the certificates',
      { etcd: { bundled: { tls: { memberSecretName: 'x' } } } },
      'give memberSecretName and clientSecretName, or neither',
    ],
    [
      'a client certificate from nowhere',
      { etcd: { ...external, tls: { clientCertificate: true } } },
      'needs etcd.tls.secretName',
    ],
    [
      'TLS towards an etcd without',
      { etcd: { endpoints: ['http://a:1'], bundled: { enabled: false }, tls: { secretName: 'x' } } },
      'http://a:1 has no TLS',
    ],
    [
      'replicas with autoscaling',
      { apiserver: { replicas: 3, autoscaling: { enabled: true } } },
      'it sets the number of replicas',
    ],
    [
      'autoscaling from more to less',
      { apiserver: { autoscaling: { enabled: true, minReplicas: 7 } } },
      'minReplicas is greater than maxReplicas',
    ],
    [
      'a volume of plugins of which none is named',
      { plugins: { volume: { emptyDir: {} } } },
      'plugins.volume needs plugins.dirs',
    ],
    ['an Ingress for nobody', { ingress: { enabled: true } }, 'ingress.enabled needs ingress.hosts'],
    [
      'users for a Secret of ours',
      { access: { existingSecret: 'x', users: [{ user: 'a', groups: [], sha256 }] } },
      'put them into tokens.yaml',
    ],
    [
      'a token where its hash belongs',
      { access: { users: [{ user: 'a', groups: [], sha256: 'sp_x' }] } },
      /access[./]users[./]0[./]sha256/,
    ],
    ['a misspelt value', { apiserver: { replica: 3 } }, /dditional propert.* '?replica'? (is )?not allowed/],
    [
      'an unknown setting',
      { settings: { 'max-watch': 1 } },
      /dditional propert.* '?max-watch'? (is )?not allowed/,
    ],
    [
      'a setting that the chart sets',
      { settings: { 'data-dir': '/data' } },
      /dditional propert.* '?data-dir'? (is )?not allowed/,
    ],
    [
      'a setting of the other store',
      { settings: { 'compact-store': true } },
      'settings.compact-store is for store: embedded, not for etcd',
    ],
    ['a text for a number', { service: { port: 'http' } }, /service[./]port\b.*integer/],
    [
      'an IPv6 address that the program cannot parse',
      { apiserver: { listenAddress: '::' } },
      /apiserver[./]listenAddress\b.* match pattern/,
    ],
    [
      'a service account without a namespace',
      { controllers: { serviceAccount: 'uptime' } },
      'controllers.serviceAccount: "uptime" is not NAMESPACE/NAME',
    ],
    [
      'an invalid schedule',
      { backup: { schedule: 'nonsense' } },
      'backup.schedule: "nonsense" is not a cron expression',
    ],
    [
      'a schedule with the field of seconds',
      { backup: { schedule: '0 0 2 * * *' } },
      'not a cron expression of five fields',
    ],
    ['an unknown store', { store: 'postgres' }, /store\b.* must be one of .*etcd.*embedded/],
  ])('are refused in words: %s', async (_, values, message) => {
    await expect(render(values)).rejects.toThrow(message)
  })
})

/** Returns the notes of an installation. */
async function notesOf(values: object): Promise<string> {
  const cluster = await FakeCluster.start(objectsOf('the defaults'))
  try {
    const flags = ['--dry-run=server', '--disable-openapi-validation', '--kube-apiserver', cluster.url]
    const { stdout, stderr } = await helm('install', values, flags)
    const start = stdout.indexOf('\nNOTES:\n')
    if (start < 0) throw new Error(stderr)
    return stdout.slice(start)
  } finally {
    await cluster.stop()
  }
}

it('the notes lead to the first request: wait, read the token, send it', async () => {
  const notes = await notesOf({ basePath: '/x' })
  expect(notes).toContain('kubectl --namespace ns rollout status deployment/rel-setpoint')
  expect(notes).toMatch(
    /^ {2}TOKEN=\$\(kubectl --namespace ns get secret rel-setpoint-tokens --output jsonpath='\{\.data\.admin-token\}' \| base64 --decode\)$/m,
  )
  expect(notes).toContain('port-forward service/rel-setpoint 8090 &')
  expect(notes).toContain('curl --header "Authorization: Bearer $TOKEN" http://127.0.0.1:8090/x/apis')
  expect(notes).not.toContain('service account')
})

it('the notes say what a service account of the operator needs', async () => {
  const notes = await notesOf({ controllers: { serviceAccount: 'team-a/uptime' } })
  expect(notes).toContain("The controllers wait for Setpoint's service account team-a/uptime.")
  expect(notes).toContain('to the group setpoint:token-issuers:team-a:uptime')
})

it("the image's entry point takes the chart's arguments", () => {
  expect(existsSync(`${root}/apiserver/bin/setpoint.js`)).toBe(true)
  for (const name of Object.keys(matrix)) {
    for (const { container, args } of podsOf(objectsOf(name)))
      if (args[0] === 'serve') expect(container.command).toBeUndefined()
  }
})
