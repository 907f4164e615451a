import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { dump } from 'js-yaml'
import { expect, it, onTestFinished } from 'vitest'
import { Api } from './support/api.ts'
import { makeCertificates } from './support/certificates.ts'
import { itemsOf } from './support/kinds.ts'
import { freePort } from './support/ports.ts'
import { giveAway, Runbook } from './support/runbook.ts'
import { SecureApi } from './support/secure-api.ts'
import { runProgram, startServer } from './support/server.ts'
import { Users } from './support/users.ts'
import { copyFixture } from './support/worlds.ts'

/** The runbooks for a lost site and a lost key, walked as they are written. */

async function itemsPlugin(): Promise<string> {
  const folder = await copyFixture('items-plugin')
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

it('restore-elsewhere', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-site-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const plugins = [await itemsPlugin()]
  const lost = await startServer({ plugins })
  const { metadata } = await itemsOf(new Api(lost.url)).create(
    'kept',
    { code: 'taken' },
    { finalizers: ['a.example.com/b'] },
  )
  const backup = join(folder, 'setpoint.backup')
  expect(await runProgram(['backup', backup, '--server', lost.url])).toMatchObject({ code: 0 })
  await lost.stop()

  const dataDir = join(folder, 'data')
  const port = await freePort()
  const url = `https://127.0.0.1:${port}`
  const certificates = await makeCertificates()
  const users = await Users.make({ emergency: ['setpoint:admins'] })
  onTestFinished(async () => {
    await users.remove()
    await rm(certificates.folder, { recursive: true, force: true })
  })
  const token = users.tokenOf('emergency')
  await writeFile(join(folder, 'emergency.token'), token)
  const runbook = await Runbook.open('restore-elsewhere', {
    url,
    flags: ['--certificate-authority', certificates.ca, '--token', token],
    here: {
      'https://setpoint.example.com:8443': url,
      '/srv/setpoint/tls/ca.crt': certificates.ca,
      '/srv/setpoint/data': dataDir,
      '/srv/setpoint': folder,
    },
    cwd: folder,
  })
  await runbook.run('verify')
  const owner = await giveAway(folder)
  await runbook.run('restore')
  expect(await stat(join(dataDir, 'store.mdb'))).toMatchObject({ uid: owner })
  const tls = ['--tls-cert', certificates.cert, '--tls-key', certificates.key]
  const args = ['--listen', `127.0.0.1:${port}`, ...tls, ...users.args]
  const server = await startServer({ dataDir, plugins, args })
  onTestFinished(async () => void (await server.stop()))
  expect(await runbook.run('look')).toContain('resource="items.items.example.com"} 1\n')
  await runbook.run('over')
  expect(await runProgram(['verify', join(folder, 'after-the-restore.backup')])).toMatchObject({ code: 0 })
  const items = itemsOf(new SecureApi(url, await readFile(certificates.ca, 'utf8'), token))
  const back = await items.api.get(items.at('kept'))
  expect(back.body).toMatchObject({ metadata: { uid: metadata.uid, finalizers: ['a.example.com/b'] } })
  expect(await items.api.post(items.path, items.body('other', { code: 'taken' }))).toMatchObject({
    status: 409,
  })
  await runbook.close()
})

it('lost-encryption-key', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-keys-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const write = async (name: string, ...keys: string[]) => {
    const list = keys.map(key => `{ name: ${key}, secret: ${Buffer.alloc(32, key).toString('base64')} }`)
    const providers = `[{ aesgcm: { keys: [${list.join(', ')}] } }]`
    const resources = `[{ resources: [items.items.example.com], providers: ${providers} }]`
    const text = `apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: ${resources}\n`
    await writeFile(join(folder, name), text, { mode: 0o600 })
  }
  await write('encryption.yaml', 'one')
  await write('encryption-with-both-keys.yaml', 'two', 'one')
  await write('encryption-without-the-old-key.yaml', 'two')
  const dataDir = join(folder, 'data')
  await mkdir(dataDir)
  const config = { 'data-dir': dataDir, 'encryption-provider-config': join(folder, 'encryption.yaml') }
  await writeFile(join(folder, 'setpoint.yaml'), dump(config))
  const server = await startServer({
    dataDir,
    plugins: [await itemsPlugin()],
    args: ['--encryption-provider-config', config['encryption-provider-config']],
  })
  onTestFinished(async () => void (await server.stop()))
  const items = itemsOf(new Api(server.url))
  for (const name of ['kept', 'lost', 'served']) await items.create(name, { code: name })
  const runbook = await Runbook.open('lost-encryption-key', {
    url: server.url,
    cwd: folder,
    here: { '/srv/setpoint': folder, 'items --all': 'items served' },
    functions: 'runuser() { shift 3; "$@"; }',
  })
  /** Runs a block that the embedded store needs a stopped server for. */
  const stopped = async (mark: string) => {
    await server.end()
    const outcome = await runbook.try(mark)
    await server.restart()
    return outcome
  }
  await write('encryption.yaml', 'two')
  await expect.poll(() => server.stderr()).toContain('reloaded the encryption configuration')
  expect(await items.api.get(items.at('kept'))).toMatchObject({ status: 200 })
  expect(await runbook.try('metric')).toMatchObject({ code: 1 })
  await runbook.run('rescue')
  expect(await stopped('check')).toMatchObject({ code: 1, stdout: expect.stringContaining('2 problems') })
  await expect.poll(async () => (await runbook.try('metric')).stdout).toContain('items.items.example.com"} 2')
  expect(await runbook.run('state')).toContain('objects')
  expect(await items.api.get(items.at('kept'))).toMatchObject({ status: 500 })
  expect(await items.api.get(items.at('served'))).toMatchObject({ status: 200 })
  await runbook.run('remove')
  expect(await stopped('repair')).toMatchObject({
    // The other object is still unreadable.
    code: 1,
    stdout: expect.stringContaining('2 problems, 1 repaired'),
  })
  // Keys that can be read stay.
  expect(await stopped('signing')).toMatchObject({ code: 1, stdout: expect.stringContaining('1 problem') })
  const encryption = join(folder, 'encryption.yaml')
  const owner = await giveAway(encryption)
  await runbook.run('back')
  expect(await stat(encryption)).toMatchObject({ uid: owner, mode: 0o100600 })
  await expect.poll(async () => (await items.api.get(items.at('kept'))).status).toBe(200)
  expect(await items.api.get(items.at('lost'))).toMatchObject({ status: 404 })
  await expect.poll(() => runbook.run('over')).toContain('items.items.example.com"} 0')
  expect(await stopped('before')).toMatchObject({ code: 1, stdout: expect.stringContaining('items/kept') })
  await runbook.close()
})
