import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { openEmbeddedStorage } from '../apiserver/src/storage/embedded/index.ts'
import { openEtcdStorage } from '../apiserver/src/storage/etcd/index.ts'
import type { Storage } from '../apiserver/src/storage/index.ts'
import { Api, Collection, refusalOf } from './support/api.ts'
import { blocksOf } from './support/doc-blocks.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { FakeKms } from './support/fake-kms.ts'
import { fieldsOf } from './support/json.ts'
import { devicesOf, itemsOf } from './support/kinds.ts'
import { freePort } from './support/ports.ts'
import {
  type Exit,
  type RunningServer,
  runProgram,
  spawnProgram,
  startSharedServer,
} from './support/server.ts'
import { peekAt } from './support/store-peek.ts'
import { Watch } from './support/watch.ts'
import { bothStores, copyFixture } from './support/worlds.ts'

/** Encryption at rest, against the built program and what it leaves in the files of its store. */

const secretOf = (text: string) => Buffer.alloc(32, text).toString('base64')
const aes = (...names: string[]) =>
  `aesgcm: { keys: [${names.map(name => `{ name: ${name}, secret: ${secretOf(name)} }`).join(', ')}] }`
const box = `secretbox: { keys: [{ name: box, secret: ${secretOf('box')} }] }`

/** Encrypts items and secrets; devices stay in the clear. */
const configuration = (...providers: string[]) => `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, items.items.example.com]
  providers:
${providers.map(provider => `  - ${provider}`).join('\n')}
`

let folder: string
let file: string
let plugin: string
let etcd: EtcdProcess | undefined
const servers: RunningServer[] = []

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-encryption-'))
  file = join(folder, 'encryption.yaml')
  plugin = await copyFixture('items-plugin')
  await mkdir(join(folder, 'data'))
})

afterEach(async () => {
  await Promise.all(servers.splice(0).map(server => server.stop()))
  await etcd?.stop()
  etcd = undefined
  for (const dir of [folder, plugin]) await rm(dir, { recursive: true, force: true })
})

const configure = (...providers: string[]) => writeFile(file, configuration(...providers))
const secretsOf = (api: Api) => new Collection(api, 'v1', 'Secret', 'secrets', 'default')

async function start(args: readonly string[] = ['--encryption-provider-config', file]) {
  const options =
    etcd === undefined
      ? { dataDir: join(folder, 'data') }
      : { store: 'etcd' as const, etcd, etcdPrefix: '/secret' }
  const server = await startSharedServer({ ...options, plugins: [plugin], args })
  servers.push(server)
  return { server, api: new Api(server.url) }
}

async function stop(server: RunningServer): Promise<void> {
  await server.stop()
  servers.splice(servers.indexOf(server), 1)
}

const storeFlags = () =>
  etcd === undefined
    ? ['--data-dir', join(folder, 'data')]
    : ['--etcd-endpoints', etcd.endpoint, '--etcd-prefix', '/secret']

const reencryptArgs = () => ['reencrypt', '--encryption-provider-config', file, ...storeFlags()]
const reencrypt = (...more: string[]): Promise<Exit> => runProgram([...reencryptArgs(), ...more])

/** Opens the store below the encryption. On the embedded store, the server must be stopped. */
async function withStore<T>(use: (storage: Storage) => Promise<T>): Promise<T> {
  const storage =
    etcd === undefined
      ? await openEmbeddedStorage({ dataDir: join(folder, 'data') })
      : await openEtcdStorage({ endpoints: [etcd.endpoint], prefix: '/secret' })
  try {
    return await use(storage)
  } finally {
    await storage.close()
  }
}

/** The first bytes of the values below a prefix, by their keys. */
const stored = (prefix: string) =>
  withStore(async storage => {
    const { pairs } = await storage.list(prefix, { limit: 10_000 })
    return pairs.map(({ key, value }) => [key.slice(prefix.length), value.toString('latin1', 0, 40)] as const)
  })

const itemsPrefix = 'objects/items.example.com/items/'
const prefixesOfItems = async () =>
  new Set(
    (await stored(itemsPrefix)).map(
      ([, text]) => /^k8s:enc:\w+:v\d:\w+:/.exec(text)?.[0] ?? text.slice(0, 2),
    ),
  )

/** The files below the folder that contain a text. */
async function filesWith(text: string): Promise<string[]> {
  const paths = await readdir(folder, { recursive: true, withFileTypes: true })
  const found: string[] = []
  for (const each of paths.filter(entry => entry.isFile()))
    if ((await readFile(join(each.parentPath, each.name))).includes(text)) found.push(each.name)
  return found
}

/** Replaces the configuration of a running server, and waits until it is in use. */
async function reload(api: Api, ...providers: string[]): Promise<void> {
  const count = async () => {
    const { text } = await api.get('/metrics')
    return Number(
      /file_reloads_total\{file="encryption-provider-config",outcome="success"\} (\d+)/.exec(text)?.[1],
    )
  }
  const before = await count()
  await configure(...providers)
  await expect.poll(count).toBe(before + 1)
}

describe.each(bothStores)('on the %s store', store => {
  beforeEach(async () => {
    if (store === 'etcd') etcd = await startEtcd({ unsafeNoFsync: true, dataDir: join(folder, 'etcd') })
  })

  it('no file of the store has anything of an encrypted object in the clear', async () => {
    await configure(aes('one'))
    const { server, api } = await start()
    const marks = ['SecretValue', 'OldSpec', 'NewSpec', 'UniqueCode', 'LabelValue'].map(
      mark => `${mark}${randomUUID()}`,
    )
    const [value = '', old = '', next = '', code = '', label = ''] = marks
    await api.post(secretsOf(api).path, {
      ...secretsOf(api).body('a', undefined),
      stringData: { password: value },
    })
    const first = await itemsOf(api).create('a', { rank: old, code }, { labels: { l: label } })
    await api.mergePatch(itemsOf(api).at('a'), { spec: { rank: next } })
    await itemsOf(api).create('gone', { rank: old })
    await api.delete(itemsOf(api).at('gone'))
    await devicesOf(api).create('open', { size: 1 }, { labels: { l: 'InTheClear' } })
    const account = '/api/v1/namespaces/default/serviceaccounts'
    await api.post(account, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'a' } })
    await api.post(`${account}/a/token`, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: {},
    })
    await stop(server)
    expect(await filesWith('InTheClear')).not.toEqual([])
    for (const mark of [...marks, Buffer.from(value).toString('base64'), 'privateKey'])
      expect(await filesWith(mark), mark).toEqual([])
    expect((await stored('authentication/')).map(([, text]) => text.slice(0, 22))).toEqual([
      'k8s:enc:aesgcm:v1:one:',
    ])

    // Everything is there again, and the history as well.
    const again = await start()
    const secret = fieldsOf((await again.api.get(secretsOf(again.api).at('a'))).body)
    expect(Buffer.from(String(fieldsOf(secret.data).password), 'base64').toString()).toBe(value)
    expect((await itemsOf(again.api).list({ fieldSelector: `spec.code=${code}` })).names).toEqual(['a'])
    const watch = await Watch.open(
      again.server.url,
      `${itemsOf(again.api).path}?version=${first.metadata.version}`,
    )
    await watch.until(({ changes }) => changes.length === 3, 'the changes before the restart')
    expect(watch.changes.map(({ type, raw }) => [type, fieldsOf(fieldsOf(raw.object).spec).rank])).toEqual([
      ['MODIFIED', next],
      ['ADDED', old],
      ['DELETED', old],
    ])
  })

  it('a key is rotated step by step, also while a server writes', async () => {
    await configure(aes('one'), 'identity: {}')
    // Before encryption was on.
    const plain = await start([])
    await itemsOf(plain.api).create('plain', { rank: '1' })
    await stop(plain.server)
    const { server, api } = await start()
    const items = itemsOf(api)
    for (let n = 0; n < 20; n++) await items.create(`old-${n}`, { rank: String(n), code: `code-${n}` })
    await reload(api, aes('one'), box, 'identity: {}')
    await reload(api, box, aes('one'), 'identity: {}')
    await items.create('new', { rank: 'new' })
    if (store === 'embedded') await stop(server)
    expect(await prefixesOfItems()).toEqual(
      new Set(['{}', 'k8s:enc:aesgcm:v1:one:', 'k8s:enc:secretbox:v1:box:']),
    )
    // No write is lost, because each is compared.
    const change = async (n: number) =>
      (await api.mergePatch(items.at(`old-${n % 20}`), { spec: { rank: `changed-${n}` } })).status
    const writes = Array.from({ length: store === 'etcd' ? 20 : 0 }, async (_, n) => [
      await change(n),
      await change(n + 20),
    ])
    expect(await reencrypt()).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^rewritten \d+ of \d+ values\n$/),
    })
    expect(await Promise.all(writes)).toEqual(writes.map(() => [200, 200]))
    expect(await prefixesOfItems()).toEqual(new Set(['k8s:enc:secretbox:v1:box:']))
    expect(await reencrypt()).toMatchObject({ code: 0, stdout: expect.stringMatching(/^rewritten 0 of /) })

    await configure(box)
    const after = await start()
    const { items: all } = await itemsOf(after.api).list()
    expect(all).toHaveLength(22)
    if (store === 'etcd')
      for (let n = 0; n < 20; n++)
        expect(all.find(({ metadata }) => metadata.name === `old-${n}`)?.spec.rank).toBe(`changed-${n + 20}`)
  })

  it('objects of a lost key are named, and are back with the key; others are served', async () => {
    await configure(aes('one'))
    const first = await start()
    await itemsOf(first.api).create('lost', { rank: 'a', code: 'taken' }, { finalizers: ['example.com/f'] })
    await itemsOf(first.api).create('doomed', { code: 'free' }, { finalizers: ['example.com/f'] })
    await stop(first.server)

    await configure(aes('two'))
    const { api, server } = await start()
    const items = itemsOf(api)
    await items.create('kept', { rank: 'b' })
    expect((await items.list()).names).toEqual(['kept'])
    expect(await devicesOf(api).create('d', { size: 1 })).toBeDefined()
    const refusal =
      /items\.items\.example\.com "lost" cannot be read: its stored value is encrypted with the key "one" of aesgcm, which --encryption-provider-config does not have/
    expect(refusalOf(await api.get(items.at('lost')), 500).message).toMatch(refusal)
    expect(refusalOf(await api.mergePatch(items.at('lost'), { spec: {} }), 500).message).toMatch(refusal)
    expect(refusalOf(await api.post(items.path, items.body('lost', {})), 409).message).toContain(
      'already exists',
    )
    expect(
      refusalOf(await api.post(items.path, items.body('other', { code: 'taken' })), 409).message,
    ).toContain('is held by "lost"')
    // Its finalizers are not known, so a deletion has to say that they do not count.
    expect(refusalOf(await api.delete(items.at('doomed')), 500).message).toContain('cannot be read')
    const option = { ignoreStoreReadErrorWithClusterBreakingPotential: true }
    expect(refusalOf(await api.delete(items.at('kept'), option), 422).message).toContain(
      'can: delete it without',
    )
    expect(await api.delete(items.at('doomed'), { ...option, dryRun: ['All'] })).toMatchObject({
      status: 200,
    })
    expect(await api.delete(items.at('doomed'), option)).toMatchObject({ status: 200 })
    expect((await api.get(items.at('doomed'))).status).toBe(404)
    await items.create('heir', { code: 'free' })
    const unread = async () => {
      const { text } = await api.get('/metrics')
      return /unreadable_objects\{resource="items\.items\.example\.com"\} (\d+)/.exec(text)?.[1]
    }
    expect(await unread()).toBe('1')
    expect((await api.get('/readyz?verbose')).text).toContain(
      '[+]objects some cannot be read; 1 items.items.example.com',
    )
    expect(await runProgram(['status', '--server', server.url])).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(
        `Not well: ${server.url} cannot read some of what is stored: 1 items.items.example.com\n`,
      ),
    })
    expect(await reencrypt().then(({ code }) => code)).toBe(1)

    const watch = await Watch.open(server.url, items.path)
    await reload(api, aes('two', 'one'))
    await expect.poll(() => api.get(items.at('lost')).then(({ status }) => status)).toBe(200)
    expect(await watch.closed).toMatchObject({ code: 4410 })
    expect((await items.list()).names).toEqual(['heir', 'kept', 'lost'])
    expect(await unread()).toBe('0')
  })
})

it.each(bothStores)('lost signing keys on %s are reported, and dropped only on demand', async store => {
  if (store === 'etcd') etcd = await startEtcd({ unsafeNoFsync: true })
  await configure(aes('one'))
  const accounts = '/api/v1/namespaces/default/serviceaccounts'
  const request = (api: Api) =>
    api.post(`${accounts}/a/token`, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: {},
    })
  const first = await start()
  await first.api.post(accounts, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'a' } })
  expect(await request(first.api)).toMatchObject({ status: 201 })
  await stop(first.server)

  await configure(aes('two'))
  const { api, server } = await start()
  await expect
    .poll(async () => (await api.get('/readyz?verbose')).text)
    .toContain('[+]objects some cannot be read; the signing keys of service accounts\n')
  expect((await api.get('/metrics')).text).toContain(
    'setpoint_cache_unreadable_objects{resource="signing-keys"} 1\n',
  )
  expect(refusalOf(await request(api), 503).message).toContain('the keys of service accounts cannot be read')
  if (store === 'embedded') await stop(server)
  const check = (...args: string[]) => runProgram(['check', ...args, ...storeFlags()])
  const problem =
    /^signing keys that cannot be decrypted authentication\/service-account-keys: it is encrypted/m
  const withFile = ['--encryption-provider-config', file]
  // Without the file, its key may well be there.
  for (const args of [['--repair', '--drop-signing-keys'], withFile, ['--repair', ...withFile]])
    expect(await check(...args)).toMatchObject({ code: 1, stdout: expect.stringMatching(problem) })
  expect((await check(...withFile)).stdout).toContain('let --repair --drop-signing-keys remove them')
  const dropped = await check('--repair', '--drop-signing-keys', ...withFile)
  expect(dropped).toMatchObject({ code: 0, stdout: expect.stringContaining(' (repaired)\n') })
  expect(await check(...withFile)).toMatchObject({ code: 0, stdout: expect.stringContaining('No problems.') })
  const again = store === 'embedded' ? (await start()).api : api
  expect(await request(again)).toMatchObject({ status: 201 })
  expect((await again.get('/readyz?verbose')).text).not.toContain('cannot be read')
})

it.each(bothStores)('a rewrite on %s that was killed is run again, and leaves a sound store', async store => {
  if (store === 'etcd') etcd = await startEtcd({ unsafeNoFsync: true })
  const plain = await start([])
  await itemsOf(plain.api).create('item-0', { rank: 'x'.repeat(500) })
  await stop(plain.server)
  const count = 1_500
  const keyOf = (n: number) => `${itemsPrefix}item-${n}`
  await withStore(async storage => {
    const { pair } = await storage.get(keyOf(0))
    const text = `${pair?.value}`
    for (let from = 1; from < count; from += 100) {
      const onSuccess = Array.from({ length: Math.min(100, count - from) }, (_, at) => {
        const named = text.replace('item-0', `item-${from + at}`)
        const value = Buffer.from(named.replace(/(?<="uid":")[^"]+/, randomUUID()))
        return { type: 'put', key: keyOf(from + at), value } as const
      })
      await storage.transact({ compares: [], onSuccess })
    }
  })
  await configure(aes('one'), 'identity: {}')
  const rewritten = async () =>
    (await stored(itemsPrefix)).filter(([, text]) => text.startsWith('k8s:enc:')).length
  const place =
    etcd === undefined ? { dataDir: join(folder, 'data') } : { endpoint: etcd.endpoint, prefix: '/secret' }
  const peek = await peekAt(place)
  const running = spawnProgram(reencryptArgs())
  await expect.poll(async () => `${await peek.value(keyOf(0))}`, { interval: 1 }).toMatch(/^k8s:enc:/)
  await running.kill('SIGKILL')
  await peek.close()
  const before = await rewritten()
  expect(before).toBeGreaterThan(0)
  expect(before).toBeLessThan(count)
  const { code, stdout } = await reencrypt()
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^rewritten \d+ of \d+ values\n$/)])
  expect(Number(/^rewritten (\d+)/.exec(stdout)?.[1])).toBeGreaterThanOrEqual(count - before)
  expect(await rewritten()).toBe(count)
  expect(await runProgram(['check', '--encryption-provider-config', file, ...storeFlags()])).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('No problems.'),
  })
})

it('the files have no old value after a rewrite that compacts the embedded store', async () => {
  const plain = await start([])
  const mark = `mark${randomUUID()}`
  for (let n = 0; n < 5; n++) {
    await itemsOf(plain.api).create(`a-${n}`, { rank: mark, code: `${mark}-${n}` })
    await plain.api.mergePatch(itemsOf(plain.api).at(`a-${n}`), { spec: { level: 'x' } })
  }
  await stop(plain.server)
  expect(await filesWith(mark)).not.toEqual([])
  await configure(aes('one'), 'identity: {}')
  const running = await start()
  expect(await reencrypt()).toMatchObject({ code: 1, stderr: expect.stringContaining('is in use by') })
  await stop(running.server)
  expect(await reencrypt('--compact-store')).toMatchObject({ code: 0 })
  expect(await filesWith(mark)).toEqual([])
  const { api } = await start()
  expect((await itemsOf(api).list({ fieldSelector: `spec.rank=${mark}` })).names).toHaveLength(5)
})

it('a key service is asked seldom, and its kinds alone wait for it', async () => {
  const kms = new FakeKms(join(folder, 'kms.sock'))
  const provider = `kms: { apiVersion: v2, name: vault, endpoint: '${kms.endpoint}', timeout: 300ms }`
  await writeFile(file, configuration(provider).replace('secrets, ', ''))
  await kms.start()
  const first = await start()
  for (let n = 0; n < 20; n++) await itemsOf(first.api).create(`a-${n}`, { rank: String(n) })
  expect(kms.calls).toEqual({ Status: 1, Encrypt: 1, Decrypt: 1 })
  await stop(first.server)
  expect(await prefixesOfItems()).toEqual(new Set(['k8s:enc:kms:v2:vault:']))

  await kms.stop()
  // Its kind keeps the plugin starting, which `startSharedServer` would wait for.
  const address = `127.0.0.1:${await freePort()}`
  const flags = ['--listen', address, '--plugin', plugin, '--encryption-provider-config', file]
  const waiting = spawnProgram(['serve', ...flags, ...storeFlags()])
  onTestFinished(async () => void (await waiting.kill()))
  await waiting.says(/^setpoint listening on/)
  const api = new Api(`http://${address}`)
  const items = itemsOf(api)
  expect(await api.get(items.path)).toMatchObject({ status: 503 })
  await devicesOf(api).create('d', { size: 1 })
  await kms.start()
  await expect.poll(() => api.get(items.path).then(({ status }) => status)).toBe(200)
  expect((await items.list()).items).toHaveLength(20)
  expect(kms.calls.Decrypt).toBeLessThan(5)

  // One that accepts calls and says nothing. This server has not written yet, so it has no seed.
  kms.hangs = true
  const refused = refusalOf(await api.post(items.path, items.body('new', {})), 503)
  expect(refused.message).toContain('key service "vault"')
  await items.read('a-0')
  kms.hangs = false
  await expect.poll(() => api.post(items.path, items.body('new', {})).then(({ status }) => status)).toBe(201)
  await kms.stop()
})

it.each([
  ['absent', undefined, 'cannot be read: '],
  ['malformed', 'a: [', 'is not valid YAML'],
  ['of an unknown provider', configuration('rot13: {}'), 'unknown key rot13'],
])(
  'a configuration that is %s is refused at the start, and at a reload the keys stay',
  async (_name, text, problem) => {
    await configure(aes('one'))
    if (text === undefined) await rm(file)
    else await writeFile(file, text)
    const args = ['serve', '--listen', '127.0.0.1:0', '--data-dir', join(folder, 'data')]
    expect(await runProgram([...args, '--encryption-provider-config', file])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(new RegExp(`^setpoint: --encryption-provider-config: .*${problem}`)),
    })
    await configure(aes('one'))
    const { api, server } = await start()
    if (text === undefined) await rm(file)
    else await writeFile(file, text)
    await expect
      .poll(async () => (await api.get('/metrics')).text)
      .toMatch(/file_reloads_total\{file="encryption-provider-config",outcome="failure"\} [1-9]/)
    expect(server.stderr()).toContain('failed to reload the encryption configuration, keeping the old one')
    await itemsOf(api).create('a', {})
    expect(await itemsOf(api).read('a')).toBeDefined()
  },
)

it('the commands of the page encrypt what a store had in the clear', async () => {
  const page = 'docs/operations/encryption.md'
  const text = await readFile(new URL(`../${page}`, import.meta.url), 'utf8')
  const run = (mark: string) => {
    const block = blocksOf(page, text).find(({ marks }) => marks.includes(mark))
    const setpoint = `setpoint() { '${fileURLToPath(new URL('../node_modules/.bin/setpoint', import.meta.url))}' "$@"; }`
    const script = `set -euo pipefail\n${setpoint}\n${block?.text.replace('./.setpoint', './data')}`
    return promisify(execFile)('bash', ['-c', script], { cwd: folder })
  }
  const plain = await start([])
  const mark = `mark${randomUUID()}`
  await secretsOf(plain.api).api.post(secretsOf(plain.api).path, {
    ...secretsOf(plain.api).body('a', undefined),
    data: { a: Buffer.from(mark).toString('base64') },
  })
  const accounts = '/api/v1/namespaces/default/serviceaccounts'
  await plain.api.post(accounts, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'a' } })
  const tokenRequest = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} }
  expect(await plain.api.post(`${accounts}/a/token`, tokenRequest)).toMatchObject({ status: 201 })
  await stop(plain.server)
  await run('encryption-file')
  const { server, api } = await start()
  expect((await api.get(secretsOf(api).at('a'))).status).toBe(200)
  expect(server.stderr()).not.toContain('every user can read')
  await stop(server)
  await expect(run('encryption-check')).rejects.toMatchObject({
    code: 1,
    stdout: expect.stringContaining('object stored in the clear objects//secrets/default/a: it is stored'),
  })
  // What can be read is not taken for lost: no advice to remove it, and no removal.
  const encryptedOnly = ['--encryption-provider-config', join(folder, 'encrypted-only.yaml')]
  const check = (...args: string[]) => runProgram(['check', ...args, ...encryptedOnly, ...storeFlags()])
  const dropping = await check('--repair', '--drop-signing-keys')
  expect(dropping.stdout).toMatch(/^ {2}object stored in the clear \(1\): .*run setpoint reencrypt/m)
  expect(dropping.stdout).toMatch(/^ {2}signing keys stored in the clear \(1\): .*run setpoint reencrypt/m)
  expect(dropping.stdout).not.toMatch(/cannot be decrypted|\(repaired\)/)
  expect(JSON.parse((await check('--output', 'json')).stdout)).toMatchObject({
    counts: { 'object stored in the clear': 1, 'signing keys stored in the clear': 1 },
  })
  expect((await run('reencrypt')).stdout).toMatch(/^rewritten [1-9]\d* of \d+ values\n$/)
  expect((await run('encryption-check')).stdout).toContain('No problems.')
  expect(await filesWith(Buffer.from(mark).toString('base64'))).toEqual([])
  expect((await stored('objects//secrets/')).map(([, value]) => value.slice(0, 23))).toEqual([
    'k8s:enc:aesgcm:v1:key1:',
  ])
})

it('an encrypted object is named by a server without the configuration', async () => {
  await configure(aes('one'))
  const first = await start()
  await itemsOf(first.api).create('a', {})
  await stop(first.server)
  const { api } = await start([])
  expect(refusalOf(await api.get(itemsOf(api).at('a')), 500).message).toContain(
    'is encrypted, and there is no --encryption-provider-config',
  )
})

it('a purge without the configuration does not remove objects whose finalizers it cannot know', async () => {
  await configure(aes('one'))
  const first = await start()
  await itemsOf(first.api).create('a', {}, { finalizers: ['example.com/f'] })
  await stop(first.server)
  const purge = (...args: string[]) => runProgram(['purge', 'items.example.com', ...args, ...storeFlags()])
  const unknown = '1 object cannot be decrypted, so nobody knows whether a controller has to clean up.'
  expect(await purge('--dry-run')).toMatchObject({ code: 0, stdout: expect.stringContaining(unknown) })
  const refused = await purge('--yes')
  expect(refused).toMatchObject({
    code: 1,
    stdout: expect.stringContaining(', 1 of them cannot be decrypted'),
  })
  expect(refused.stderr).toMatch(
    /^setpoint: the finalizers of 1 object are not known, so nothing was removed: /,
  )
  expect(await prefixesOfItems()).toEqual(new Set(['k8s:enc:aesgcm:v1:one:']))
  const withFile = ['--encryption-provider-config', file]
  expect((await purge('--dry-run', ...withFile)).stdout).toContain(
    'items: 1 object, 1 of them with finalizers;',
  )
  // Its key is lost for ever.
  await configure(aes('two'))
  const removed = await purge('--yes', ...withFile)
  expect(removed).toMatchObject({ code: 0, stdout: expect.stringContaining(unknown) })
  expect(await stored(itemsPrefix)).toEqual([])
})
