import { mkdtemp, readdir, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { openEmbeddedStorage } from '../apiserver/src/storage/embedded/index.ts'
import { openEtcdStorage } from '../apiserver/src/storage/etcd/index.ts'
import { formatKey, type Storage } from '../apiserver/src/storage/index.ts'
import { Api } from './support/api.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { runProgram, spawnProgram, startSharedServer } from './support/server.ts'
import { bothStores } from './support/worlds.ts'

/** What the built program does with a store that a newer one has changed. */

const newer = JSON.stringify({ version: 2, by: '7.8.9' })
const refusal =
  /^setpoint: the store has format 2, written by Setpoint 7\.8\.9\. This is Setpoint \S+, which reads formats up to 1: start Setpoint 7\.8\.9 or newer, or restore a backup/m

describe.each(bothStores)('a %s store', store => {
  let dataDir: string
  let etcd: EtcdProcess | undefined

  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'setpoint-format-'))
    if (store === 'etcd') etcd = await startEtcd({ unsafeNoFsync: true })
  })
  afterAll(async () => {
    await etcd?.stop()
    await rm(dataDir, { recursive: true, force: true })
  })

  async function inStore<T>(use: (storage: Storage) => Promise<T>): Promise<T> {
    const storage: Storage = etcd
      ? await openEtcdStorage({ endpoints: [etcd.endpoint] })
      : await openEmbeddedStorage({ dataDir })
    return use(storage).finally(() => storage.close())
  }

  it('says its format from the first start on, and a program that does not know it stops with the remedy', async () => {
    const server = await startSharedServer({ store, dataDir, ...(etcd && { etcd }) })
    await server.stop()
    const first = await inStore(storage => storage.get(formatKey))
    expect(JSON.parse(String(first.pair?.value))).toEqual({ version: 1, by: expect.any(String) })
    await inStore(storage =>
      storage.transact({
        compares: [],
        onSuccess: [{ type: 'put', key: formatKey, value: Buffer.from(newer) }],
      }),
    )
    const { current } = await inStore(storage => storage.head())
    const place = etcd ? ['--etcd-endpoints', etcd.endpoint] : ['--data-dir', dataDir]
    for (const command of [
      ['serve', '--listen', '127.0.0.1:0'],
      ['check', '--repair'],
      ['purge', 'a.example.com', '--yes'],
    ])
      expect(await runProgram([...command, ...place])).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(refusal),
      })
    expect(await inStore(storage => storage.head())).toMatchObject({ current })
  })

  if (store === 'etcd')
    it('is refused also if it was away when the server started', async () => {
      await etcd?.kill()
      const running = spawnProgram([
        'serve',
        '--listen',
        '127.0.0.1:0',
        '--etcd-endpoints',
        etcd?.endpoint ?? '',
      ])
      const [, url = ''] = await running.says(/^setpoint listening on (\S+)\n/)
      await etcd?.restart()
      const api = new Api(url)
      await expect.poll(async () => (await api.get('/readyz')).text).toContain('the store has format 2')
      expect(await api.get('/api/v1/namespaces/default')).toMatchObject({ status: 503 })
      await running.kill()
    })
})

it('a prefix of etcd without a store is an error, and one whose store has no format is not', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-prefix-'))
  const etcd = await startEtcd({ unsafeNoFsync: true })
  onTestFinished(async () => {
    await etcd.stop()
    await rm(folder, { recursive: true })
  })
  const place = ['--etcd-endpoints', etcd.endpoint, '--etcd-prefix']
  const encryption = join(folder, 'encryption.yaml')
  const rule = { resources: ['secrets'], providers: [{ identity: {} }] }
  const head = { apiVersion: 'apiserver.config.k8s.io/v1', kind: 'EncryptionConfiguration' }
  await writeFile(encryption, JSON.stringify({ ...head, resources: [rule] }))
  const commands = [
    ['backup', join(folder, 'a.backup')],
    ['check'],
    ['reencrypt', '--encryption-provider-config', encryption],
    ['purge', 'a.example.com', '--yes'],
  ]
  for (const command of commands)
    expect(await runProgram([...command, ...place, '/nix'])).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: expect.stringMatching(
        /^setpoint: \/nix in etcd at \S+ has no store: is it the --etcd-prefix of the servers\?\n$/,
      ),
    })
  expect(await readdir(folder)).toEqual(['encryption.yaml'])

  const server = await startSharedServer({ store: 'etcd', etcd, etcdPrefix: '/old' })
  await server.stop()
  const storage = await openEtcdStorage({ endpoints: [etcd.endpoint], prefix: '/old' })
  await storage.transact({ compares: [], onSuccess: [{ type: 'delete', key: formatKey }] })
  await storage.close()
  for (const command of commands)
    expect(await runProgram([...command, ...place, '/old'])).toMatchObject({ code: 0 })
  // A restore begins with nothing.
  const restored = await runProgram(['restore', join(folder, 'a.backup'), '--dry-run', ...place, '/new'])
  expect(restored).toMatchObject({ code: 0, stdout: expect.stringContaining('would write ') })
})

it('a store that was truncated to nothing is an error with the remedy, not a new store', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-format-'))
  await (await startSharedServer({ dataDir })).stop()
  await truncate(join(dataDir, 'store.mdb'), 0)
  for (const command of [['serve', '--listen', '127.0.0.1:0'], ['check']])
    expect(await runProgram([...command, '--data-dir', dataDir])).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(
        /store\.mdb is empty or was missing, but the folder had a store: restore a backup/,
      ),
    })
  await rm(dataDir, { recursive: true })
})
