import { readFile } from 'node:fs/promises'
import { load } from 'js-yaml'
import { expect, it } from 'vitest'
import { FakeCluster } from './support/fake-cluster.ts'
import { helm, type KubernetesObject, pick, podOf, release, render } from './support/helm.ts'
import { arrayOf, type Fields, fieldsOf } from './support/json.ts'
import { problemsOf } from './support/manifests.ts'

/** Values that change or extend what the chart renders by default. The matrix of chart.test.ts has the others. */

const servers = release.fullname
const controllers = `${release.fullname}-controllers`
const etcd = `${release.fullname}-etcd`

const deploymentsOf = (objects: readonly KubernetesObject[]) =>
  [servers, controllers].map(name => podOf(objects, 'Deployment', name))
const policyOf = (objects: readonly KubernetesObject[], name: string) =>
  pick(objects, 'NetworkPolicy', name).spec
const labelsOf = (peer: unknown) => fieldsOf(fieldsOf(fieldsOf(peer).podSelector).matchLabels)
const sha256 = `sha256:${'a'.repeat(64)}`

it('what is added reaches its pods and objects, in the form that Kubernetes takes', async () => {
  const more = {
    minReadySeconds: 30,
    startupProbe: { failureThreshold: 900 },
    livenessProbe: { initialDelaySeconds: 60 },
    extraVolumes: [{ name: 'more', secret: { secretName: 'more' } }],
    extraVolumeMounts: [{ name: 'more', mountPath: '/etc/more', readOnly: true }],
    extraInitContainers: [{ name: 'first', image: 'example.com/first' }],
    extraContainers: [{ name: 'beside', image: 'example.com/beside' }],
  }
  const { yaml, objects } = await render({
    global: { imageRegistry: 'mirror.example.com' },
    image: { digest: sha256 },
    commonLabels: { team: 'a', 'app.kubernetes.io/name': 'ours' },
    commonAnnotations: { owner: 'ann' },
    apiserver: { ...more, podLabels: { team: 'b' } },
    controllers: more,
    etcd: {
      bundled: {
        replicas: 5,
        minReadySeconds: 30,
        startupProbe: { failureThreshold: 900 },
        extraArgs: ['--heartbeat-interval=200'],
        extraEnv: [{ name: 'GOMAXPROCS', value: '2' }],
      },
    },
    service: {
      type: 'LoadBalancer',
      nodePort: 30_090,
      externalTrafficPolicy: 'Local',
      loadBalancerClass: 'example.com/inside',
      loadBalancerSourceRanges: ['192.0.2.0/24', '2001:db8::/32'],
    },
    extraObjects: [
      {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: '{{ .Release.Name }}-more' },
        data: { server: '{{ include "setpoint.serverUrl" . }}' },
      },
    ],
  })
  expect(await problemsOf([{ name: 'more', yaml }])).toEqual([])
  const own = objects.filter(({ name }) => name !== `${release.name}-more`)
  for (const { labels, metadata } of own) {
    expect(labels).toMatchObject({ team: 'a', 'app.kubernetes.io/name': 'setpoint' })
    expect(metadata.annotations).toMatchObject({ owner: 'ann' })
  }
  for (const { spec, container, labels } of deploymentsOf(objects)) {
    const names = (containers: unknown) => arrayOf(containers).map(each => fieldsOf(each).name)
    expect(names(spec.containers)).toEqual(['setpoint', 'beside'])
    expect(names(spec.initContainers)[0]).toBe('first')
    expect(arrayOf(container.volumeMounts)).toContainEqual(more.extraVolumeMounts[0])
    expect(arrayOf(spec.volumes)).toContainEqual(more.extraVolumes[0])
    expect(container.image).toBe(`mirror.example.com/setpoint@${sha256}`)
    expect(container.startupProbe).toMatchObject({ periodSeconds: 2, failureThreshold: 900 })
    expect(container.livenessProbe).toMatchObject({ initialDelaySeconds: 60, httpGet: {} })
    expect(labels).toMatchObject({ 'app.kubernetes.io/name': 'setpoint' })
  }
  expect(deploymentsOf(objects).map(({ labels }) => labels.team)).toEqual(['b', 'a'])
  const members = podOf(objects, 'StatefulSet', etcd)
  expect(members.container.image).toBe('mirror.example.com/coreos/etcd:v3.5.21')
  expect(members.container.startupProbe).toMatchObject({ failureThreshold: 900 })
  expect(members.flag('heartbeat-interval')).toBe('200')
  expect(members.env).toContainEqual({ name: 'GOMAXPROCS', value: '2' })
  expect(members.flag('initial-cluster')?.split(',')).toHaveLength(5)
  for (const [kind, name] of [
    ['Deployment', servers],
    ['Deployment', controllers],
    ['StatefulSet', etcd],
  ] as const)
    expect(pick(objects, kind, name).spec.minReadySeconds).toBe(30)
  expect(pick(objects, 'StatefulSet', etcd).spec.replicas).toBe(5)
  expect(pick(objects, 'Service', servers).spec).toMatchObject({
    externalTrafficPolicy: 'Local',
    loadBalancerClass: 'example.com/inside',
    loadBalancerSourceRanges: ['192.0.2.0/24', '2001:db8::/32'],
    ports: [{ port: 8090, nodePort: 30_090 }],
  })
  expect(pick(objects, 'ConfigMap', `${release.name}-more`).raw.data).toEqual({
    server: 'http://rel-setpoint.ns.svc:8090',
  })
})

it('the users that the chart sets can be removed, so that the cluster chooses them, and the rest stays', async () => {
  const podSecurityContext = { runAsUser: null, runAsGroup: null, fsGroup: null }
  const { objects } = await render({ podSecurityContext, securityContext: { privileged: false } })
  const pods = objects.flatMap(({ pod }) => pod ?? [])
  expect(pods).toHaveLength(4)
  for (const { spec, container } of pods) {
    expect(spec.securityContext).toEqual({
      runAsNonRoot: true,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    })
    expect(container.securityContext).toMatchObject({ privileged: false, readOnlyRootFilesystem: true })
  }
})

it('annotations of the objects replace no pod', async () => {
  const templates = async (values: object) => {
    const { objects } = await render(values)
    return [servers, controllers].map(name => pick(objects, 'Deployment', name).spec.template)
  }
  expect(await templates({ commonAnnotations: { owner: 'ann' } })).toEqual(await templates({}))
})

it('egress policies let pods reach each other, DNS, and what the values name', async () => {
  const extra = [{ ports: [{ port: 25 }], to: [{ ipBlock: { cidr: '192.0.2.0/24' } }] }]
  const networkPolicy = { egress: { enabled: true, extra } }
  const { yaml, objects } = await render({ networkPolicy })
  const dns = {
    ports: [53, 5353].flatMap(port => ['UDP', 'TCP'].map(protocol => ({ port, protocol }))),
  }
  const rules = (name: string) => {
    const { policyTypes, egress } = policyOf(objects, name)
    expect(policyTypes).toEqual(['Ingress', 'Egress'])
    const [first, ...others] = arrayOf(egress).map(fieldsOf)
    expect(first).toEqual(dns)
    return others
  }
  const reached = (rule: Fields | undefined) => [
    arrayOf(rule?.ports).map(port => fieldsOf(port).port),
    arrayOf(rule?.to).map(peer => labelsOf(peer)['app.kubernetes.io/component']),
  ]
  const [toEtcd, ...ofServers] = rules(servers)
  expect(reached(toEtcd)).toEqual([['client'], ['etcd']])
  expect(ofServers).toEqual(extra)
  const [toServers, ...ofControllers] = rules(controllers)
  expect(reached(toServers)).toEqual([['api'], ['apiserver']])
  expect(ofControllers).toEqual(extra)
  const [toMembers, ...ofMembers] = rules(etcd)
  expect(reached(toMembers)).toEqual([['peer', 'client'], ['etcd']])
  expect(ofMembers).toEqual([])

  const outside = await render({
    networkPolicy: { egress: { enabled: true } },
    etcd: {
      endpoints: ['https://a.example.com:2379', '[2001:db8::1]:2380'],
      bundled: { enabled: false },
      tls: { secretName: 'etcd' },
    },
    access: { oidc: { issuer: 'https://login.example.com/realms/one', audience: 'setpoint' } },
    audit: { webhook: { url: 'http://audit.example.com:8080/events' } },
  })
  expect(policyOf(outside.objects, servers).egress).toEqual([
    dns,
    { ports: [2379, 2380, 443, 8080].map(port => ({ port, protocol: 'TCP' })) },
  ])
  const manifests = [yaml, outside.yaml].map(yaml => ({ name: 'egress', yaml }))
  expect(await problemsOf(manifests)).toEqual([])
})

it("hardening's example mounts a plugin's secret setting in both Deployments", async () => {
  const page = await readFile(new URL('../docs/security/hardening.md', import.meta.url), 'utf8')
  const [, values = ''] = /^```yaml values\.yaml\n(.*?)^```$/ms.exec(page) ?? []
  const { objects } = await render(fieldsOf(load(values)))
  for (const { mounts, env } of deploymentsOf(objects)) {
    const mount = mounts.find(({ path }) => path === '/etc/mail-relay')
    expect(mount?.volume.secret).toEqual({ secretName: 'mail-relay' })
    expect(env).toEqual([
      { name: 'SETPOINT_PLUGIN_MAIL_RELAY_API_TOKEN_FILE', value: '/etc/mail-relay/api-token' },
    ])
  }
})

it('an upgrade cannot change the number of members', async () => {
  const { objects } = await render({})
  const { raw } = pick(objects, 'StatefulSet', etcd)
  const metadata = { namespace: release.namespace, name: etcd }
  const cluster = await FakeCluster.start(objects, [
    { ...raw, apiVersion: 'apps/v1', kind: 'StatefulSet', metadata },
  ])
  const upgraded = (replicas: number) =>
    render({ etcd: { bundled: { replicas } } }, ['--dry-run=server', '--kube-apiserver', cluster.url])
  try {
    await expect(upgraded(5)).rejects.toThrow('etcd.bundled.replicas: an upgrade cannot change it from 3')
    await upgraded(3)
  } finally {
    await cluster.stop()
  }
})

it.each<[string, object, string | RegExp]>([
  [
    'a quantity that Kubernetes does not know',
    { apiserver: { resources: { limits: { memory: '2Gigabyte' } } } },
    /limits[./]memory/,
  ],
  [
    'a policy of another kind',
    { audit: { enabled: true, policy: { apiVersion: 'audit.k8s.io/v1', kind: 'Polic', rules: [] } } },
    'kind: Policy',
  ],
  [
    'a policy without a version',
    { audit: { enabled: true, policy: { kind: 'Policy', rules: [] } } },
    'apiVersion: audit.k8s.io/v1',
  ],
  [
    'a policy with a level that does not exist',
    {
      audit: {
        enabled: true,
        policy: { apiVersion: 'audit.k8s.io/v1', kind: 'Policy', rules: [{ level: 'Meta' }] },
      },
    },
    /rules[./]0[./]level/,
  ],
  [
    'endpoints with and without TLS',
    { etcd: { endpoints: ['https://a:1', 'http://b:1'], bundled: { enabled: false } } },
    'begin all of them with https://',
  ],
  [
    'endpoints with TLS and without a scheme',
    { etcd: { endpoints: ['https://a:1', 'b:1'], bundled: { enabled: false } } },
    'begin all of them with https://',
  ],
  ['two members', { etcd: { bundled: { replicas: 2 } } }, /etcd[./]bundled[./]replicas/],
  ['a digest without its algorithm', { image: { digest: 'a'.repeat(64) } }, /image[./]digest/],
  ['a probe that requests something else', { apiserver: { livenessProbe: { httpGet: {} } } }, /httpGet/],
  [
    'ranges of addresses without a load balancer',
    { service: { loadBalancerSourceRanges: ['192.0.2.0/24'] } },
    'need service.type: LoadBalancer',
  ],
  [
    'a port of the nodes without its type',
    { service: { nodePort: 30_090 } },
    'need service.type: NodePort or LoadBalancer',
  ],
])('%s: refused with the reason alone', async (_, values, message) => {
  const error = await render(values).then(
    () => new Error('rendered'),
    (error: Error) => error,
  )
  expect(error.message).toMatch(message)
  expect(error.message).not.toContain('allOf')
})

it.each(['@daily', '@every 1h30m', '*/15 2-4,22 * * MON-FRI', '0 2 1 JAN,jul ?', '5/10 * * * 7'])(
  'takes the schedule %s',
  async schedule => {
    const { objects } = await render({ backup: { enabled: true, schedule } })
    expect(pick(objects, 'CronJob', `${servers}-backup`).spec.schedule).toBe(schedule)
  },
)

it('takes every form of a quantity', async () => {
  const forms = [0, 1.5, '1', '.5', '1.', '100m', '2Gi', '1e3', '128974848', '500M', '5n']
  const requests = Object.fromEntries(forms.map((form, n) => [`example.com/${n}`, form]))
  const { objects } = await render({ apiserver: { resources: { requests } } })
  const { container } = podOf(objects, 'Deployment', servers)
  expect(fieldsOf(container.resources).requests).toMatchObject(requests)
})

it('prometheusRule: the alerts as they are in their file, with the address of the runbooks', async () => {
  const runbookUrl = 'https://docs.example.com/runbooks'
  const { objects } = await render({
    prometheusRule: { enabled: true, labels: { release: 'prometheus' }, runbookUrl },
  })
  const { metadata, spec } = pick(objects, 'PrometheusRule', servers)
  expect(metadata.labels).toMatchObject({ release: 'prometheus' })
  const file = await readFile('charts/setpoint/files/alerts.yaml', 'utf8')
  expect(spec).toEqual(load(file.replaceAll('docs/operations/runbooks', runbookUrl)))
  expect(await helm('lint', { prometheusRule: { runbookUrl: `${runbookUrl}/` } })).not.toMatchObject({
    code: 0,
  })
})
