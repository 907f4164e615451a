import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Collection, objectOf } from './support/api.ts'
import { ClientWorld, settings } from './support/client-world.ts'
import { fieldsOf } from './support/json.ts'
import { namespacesOf } from './support/kinds.ts'
import { Kubectl } from './support/kubectl.ts'

/**
 * The built-in kinds in kubectl. `create -f` sends JSON, `create <kind>` protobuf, `patch` and `apply` strategic
 * merges.
 */

const configMap = (data: string, labels = '') => `
apiVersion: v1
kind: ConfigMap
metadata:
  name: applied
  labels: {${labels}}
data: {${data}}
`

const manifest = (kind: string, name: string, content: object) =>
  JSON.stringify({ apiVersion: 'v1', kind, metadata: { name }, ...content })

describe.each(settings)('kubectl $kubectl on $title', setting => {
  let world: ClientWorld
  let kubectl: Kubectl
  let configMaps: Collection
  const run = (...args: string[]) => kubectl.output(args)
  const create = (kind: string, name: string, content: object = {}) =>
    kubectl.output(['create', '-f', '-'], { input: manifest(kind, name, content) })
  const dataOf = async (name: string) => fieldsOf((await configMaps.read(name)).raw.data)

  beforeAll(async () => {
    world = await ClientWorld.start(setting, ['items-plugin'])
    configMaps = new Collection(world.api, 'v1', 'ConfigMap', 'configmaps', 'default')
    kubectl = await Kubectl.configured(setting.kubectl, world.kubeconfig)
  })
  afterAll(async () => {
    await kubectl?.close()
    await world?.end()
  })

  it('creates a namespace and a ConfigMap', async () => {
    expect(await run('create', 'namespace', 'made')).toBe('namespace/made created\n')
    expect((await namespacesOf(world.api).read('made')).status).toMatchObject({ phase: 'Active' })
    const created = await run('create', 'configmap', 'made', '--from-literal=a=1', '--from-literal=b=')
    expect(created).toBe('configmap/made created\n')
    expect(await dataOf('made')).toEqual({ a: '1', b: '' })
    const dry = await run('create', 'configmap', 'dry', '--dry-run=server')
    expect(dry).toBe('configmap/dry created (server dry run)\n')
    await expect(run('create', 'namespace', 'made')).rejects.toThrow('(AlreadyExists)')
  })

  it('creates kinds with secrets, accounts and roles', async () => {
    await run('create', 'secret', 'generic', 'made', '--from-literal=password=x')
    const shown = await run('get', 'secret', 'made', '--output', 'jsonpath={.type} {.data.password}')
    expect(shown).toBe('Opaque eA==')
    expect(await run('create', 'serviceaccount', 'made')).toBe('serviceaccount/made created\n')
    const rules = ['--verb', 'get,list', '--resource', 'configmaps']
    expect(await run('create', 'role', 'made', ...rules)).toMatch(/^role\S+made created\n$/)
    expect(await run('create', 'clusterrole', 'made', ...rules)).toMatch(/^clusterrole\S+made created\n$/)
    const bound = ['--role', 'made', '--serviceaccount', 'default:made']
    expect(await run('create', 'rolebinding', 'made', ...bound)).toMatch(/^rolebinding\S+made created\n$/)
    expect(await run('get', 'role', 'made', '--output', 'jsonpath={.rules[0].verbs}')).toBe('["get","list"]')
  })

  it('merges the secrets of an account by name', async () => {
    await run('create', 'serviceaccount', 'merged')
    for (const name of ['a', 'b'])
      await run('patch', 'serviceaccount', 'merged', '--patch', JSON.stringify({ secrets: [{ name }] }))
    const names = await run('get', 'serviceaccount', 'merged', '--output', 'jsonpath={.secrets[*].name}')
    expect(names.split(' ').sort()).toEqual(['a', 'b'])
  })

  it('creates a quota, and shows what is used of it', async () => {
    await run('create', 'namespace', 'bounded')
    const hard = '--hard=count/configmaps=1,setpoint.dev/bytes=64Ki'
    expect(await run('create', 'quota', 'team', hard, '--namespace', 'bounded')).toBe(
      'resourcequota/team created\n',
    )
    await run('create', 'configmap', 'a', '--namespace', 'bounded')
    await expect(run('create', 'configmap', 'b', '--namespace', 'bounded')).rejects.toThrow(
      'exceeded quota: team',
    )
    const described = () => run('describe', 'quota', 'team', '--namespace', 'bounded')
    await expect.poll(described, { timeout: 10_000 }).toMatch(/count\/configmaps +1 +1\n/)
  })

  it('asks for permissions', async () => {
    expect(await run('auth', 'can-i', 'create', 'configmaps')).toBe('yes\n')
  })

  it('patches without a type, and with one', async () => {
    await run('create', 'configmap', 'patched', '--from-literal=a=1', '--from-literal=b=2')
    await run('patch', 'configmap', 'patched', '--patch', '{"data":{"b":null,"c":"3"}}')
    expect(await dataOf('patched')).toEqual({ a: '1', c: '3' })
    const replace = '{"data":{"$patch":"replace","d":"4"}}'
    await run('patch', 'configmap', 'patched', '--type', 'strategic', '--patch', replace)
    expect(await dataOf('patched')).toEqual({ d: '4' })
    await run('patch', 'configmap', 'patched', '--type', 'merge', '--patch', '{"data":{"e":"5"}}')
    expect(await dataOf('patched')).toEqual({ d: '4', e: '5' })
  })

  it('labels and annotates', async () => {
    await run('create', 'configmap', 'labelled')
    await run('label', 'configmap', 'labelled', 'team=a')
    await run('annotate', 'configmap', 'labelled', 'note=x')
    await run('label', 'configmap', 'labelled', 'team-', 'tier=b')
    const { labels, annotations } = (await configMaps.read('labelled')).metadata
    expect([labels, annotations]).toEqual([{ tier: 'b' }, { note: 'x' }])
  })

  it('applies: creates, changes with a strategic merge patch, and takes away', async () => {
    const apply = async (...given: Parameters<typeof configMap>) =>
      kubectl.output(['apply', '--filename', '-', '-v=9'], { input: configMap(...given) })
    await apply('a: "1", b: "2"', 'team: x')
    const second = kubectl.start(['apply', '--filename', '-', '--v=8'], {
      input: configMap('a: "9", c: "3"', 'team: x'),
    })
    const { stdout, stderr } = await second.ended
    expect(stdout).toBe('configmap/applied configured\n')
    expect(stderr).toContain('application/strategic-merge-patch+json')
    expect(await dataOf('applied')).toEqual({ a: '9', c: '3' })
    expect(await apply('a: "9", c: "3"', 'team: x')).toBe('configmap/applied unchanged\n')
  })

  it('edits', async () => {
    await run('create', 'configmap', 'edited', '--from-literal=colour=red')
    const editor = join(kubectl.home, 'editor.sh')
    await writeFile(editor, '#!/bin/sh\nsed -i s/red/blue/ "$1"\n', { mode: 0o755 })
    const edited = await kubectl.output(['edit', 'configmap', 'edited'], { env: { KUBE_EDITOR: editor } })
    expect(edited).toBe('configmap/edited edited\n')
    expect(await dataOf('edited')).toEqual({ colour: 'blue' })
  })

  it('replaces and deletes', async () => {
    await run('create', 'configmap', 'replaced', '--from-literal=a=1')
    const input = configMap('z: "26"').replace('applied', 'replaced')
    await kubectl.output(['replace', '--filename', '-'], { input })
    expect(await dataOf('replaced')).toEqual({ z: '26' })
    expect(await run('delete', 'configmap', 'replaced')).toMatch(/^configmap "replaced" deleted/)
    expect(await run('delete', 'namespace', 'made')).toMatch(/^namespace "made" deleted/)
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
    const kinds = ['--output', 'jsonpath={.kind} {.items[*].kind}']
    expect(await run('get', 'cm', ...kinds)).toMatch(/^List( ConfigMap)+$/)
    expect(await run('delete', 'cm,secret,sa', '--all')).toContain('configmap "settings" deleted')
    expect(await run('get', 'cm')).toBe('')
  })

  it('deletes a secret, and waits for its finalizers', async () => {
    const held = '/api/v1/namespaces/default/secrets/held'
    await create('Secret', 'held')
    await world.api.mergePatch(held, { metadata: { finalizers: ['example.com/hold'] } })
    const deleting = run('delete', 'secret', 'held')
    await expect
      .poll(async () => objectOf(await world.api.get(held)).metadata.deletionTimestamp)
      .toBeDefined()
    await world.api.mergePatch(held, { metadata: { finalizers: null } })
    expect(await deleting).toMatch(/^secret "held" deleted/)
    expect((await world.api.get(held)).status).toBe(404)
  })

  it('waits for a field', async () => {
    await create('ConfigMap', 'waited')
    const waiting = run('wait', 'configmap/waited', '--for=jsonpath={.data.ready}=yes', '--timeout=60s')
    await world.api.mergePatch('/api/v1/namespaces/default/configmaps/waited', { data: { ready: 'yes' } })
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
    await expect
      .poll(() => run('describe', 'cm', 'eventful'))
      .toMatch(/Warning +Seen +\S+( \(x3 over \S+\))? +watcher +it was there/)
    expect(await run('get', 'events')).toMatch(
      /^LAST SEEN +TYPE +REASON +OBJECT +MESSAGE\n\S+ +Warning +Seen +configmap\/eventful +it was there/,
    )
    expect(await run('events', '--for', 'configmap/eventful')).toMatch(
      /Warning +Seen +ConfigMap\/eventful +it was there/,
    )
    expect(await run('get', 'events.events.k8s.io')).toContain('configmap/eventful')
  })

  it('describes a cluster-scoped object with its events', async () => {
    const apiVersion = 'items.example.com/v1'
    await create('Item', 'wide', { apiVersion, spec: {} })
    const { metadata } = JSON.parse(await run('get', 'item', 'wide', '-o', 'json'))
    await create('Event', 'wide.1', {
      involvedObject: { apiVersion, kind: 'Item', name: 'wide', uid: metadata.uid },
      ...{ type: 'Normal', reason: 'Grown', message: 'it is wide', source: { component: 'watcher' } },
    })
    await expect.poll(() => run('describe', 'item', 'wide')).toMatch(/Normal +Grown +.*it is wide/)
  })
})
