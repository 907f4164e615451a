import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Api } from './support/api.ts'
import { Kubectl, kubectlVersions } from './support/kubectl.ts'
import { eventually, startWorld, type World } from './support/worlds.ts'

/** The built-in kinds in kubectl. `create -f` sends JSON, `create <kind>` protobuf. */

const manifest = (kind: string, name: string, content: object) =>
  JSON.stringify({ apiVersion: 'v1', kind, metadata: { name }, ...content })

describe.each(kubectlVersions)('kubectl %s', version => {
  let world: World
  let api: Api
  let kubectl: Kubectl
  const run = (...args: string[]) => kubectl.output(args)
  const create = (kind: string, name: string, content: object = {}) =>
    kubectl.output(['create', '-f', '-'], { input: manifest(kind, name, content) })

  beforeAll(async () => {
    world = await startWorld('embedded', [])
    api = world.api
    kubectl = await Kubectl.open(version, '--server', world.server.url, '--namespace', 'default')
  })
  afterAll(async () => {
    await kubectl?.close()
    await world?.end()
  })

  it('creates, shows and deletes objects of each kind', async () => {
    expect(await create('ConfigMap', 'settings', { data: { colour: 'red' } })).toBe(
      'configmap/settings created\n',
    )
    expect(await run('get', 'cm', 'settings')).toMatch(/^NAME +DATA +AGE\nsettings +1 +/)
    expect(await create('Secret', 'key', { stringData: { a: '1' } })).toBe('secret/key created\n')
    expect(await run('get', 'secret', 'key')).toMatch(/^NAME +TYPE +DATA +AGE\nkey +Opaque +1 +/)
    expect(await create('ServiceAccount', 'robot')).toBe('serviceaccount/robot created\n')
    expect(await run('get', 'sa', 'robot')).toMatch(/^NAME +SECRETS +AGE\nrobot +0 +/)
    expect(await run('describe', 'configmap', 'settings')).toMatch(/Data\n=+\ncolour:\n-+\nred/)
    expect(await run('describe', 'secret', 'key')).toMatch(/Data\n=+\na: +1 bytes?/)
    expect(await run('delete', 'cm,secret,sa', '--all')).toContain('configmap "settings" deleted')
    expect(await run('get', 'cm')).toBe('')
  })

  it('creates secrets and service accounts from arguments', async () => {
    await run('create', 'secret', 'generic', 'literal', '--from-literal=a=1')
    expect(await run('get', 'secret', 'literal', '-o', 'jsonpath={.type} {.data.a}')).toBe('Opaque MQ==')
    await run('create', 'serviceaccount', 'worker')
    expect(await run('get', 'sa', '-o', 'name')).toBe('serviceaccount/worker\n')
  })

  it('waits for a field', async () => {
    await create('ConfigMap', 'waited')
    const waiting = run('wait', 'configmap/waited', '--for=jsonpath={.data.ready}=yes', '--timeout=60s')
    await api.mergePatch('/api/v1/namespaces/default/configmaps/waited', { data: { ready: 'yes' } })
    expect(await waiting).toBe('configmap/waited condition met\n')
  })

  it('describes an object with its events, and lists them', async () => {
    await create('ConfigMap', 'eventful')
    const { metadata } = JSON.parse(await run('get', 'cm', 'eventful', '-o', 'json'))
    const at = new Date().toISOString()
    await create('Event', 'eventful.1', {
      involvedObject: {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        namespace: 'default',
        name: 'eventful',
        uid: metadata.uid,
      },
      ...{ type: 'Warning', reason: 'Seen', message: 'it was there', count: 3 },
      ...{ firstTimestamp: at, lastTimestamp: at, source: { component: 'watcher' } },
    })
    await eventually(async () =>
      expect(await run('describe', 'cm', 'eventful')).toMatch(
        /Warning +Seen +\S+( \(x3 over \S+\))? +watcher +it was there/,
      ),
    )
    expect(await run('get', 'events')).toMatch(
      /^LAST SEEN +TYPE +REASON +OBJECT +MESSAGE\n\S+ +Warning +Seen +configmap\/eventful +it was there/,
    )
    expect(await run('events', '--for', 'configmap/eventful')).toMatch(
      /Warning +Seen +ConfigMap\/eventful +it was there/,
    )
    expect(await run('get', 'events.events.k8s.io')).toContain('configmap/eventful')
  })
})
