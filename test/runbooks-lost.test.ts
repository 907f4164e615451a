import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { Api } from './support/api.ts'
import { itemsOf } from './support/kinds.ts'
import { freePort } from './support/ports.ts'
import { Runbook } from './support/runbook.ts'
import { runProgram, startServer } from './support/server.ts'
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
  const url = `http://127.0.0.1:${port}`
  const here = { '/srv/setpoint/data': dataDir }
  const runbook = await Runbook.open('restore-elsewhere', { url, here, cwd: folder, env: { SETPOINT: url } })
  await runbook.run('verify')
  await runbook.run('restore')
  const server = await startServer({ dataDir, plugins, args: ['--listen', `127.0.0.1:${port}`] })
  onTestFinished(async () => void (await server.stop()))
  expect(await runbook.run('look')).toContain('resource="items.items.example.com"} 1\n')
  await runbook.run('over')
  const items = itemsOf(new Api(url))
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
  const server = await startServer({
    plugins: [await itemsPlugin()],
    args: ['--encryption-provider-config', join(folder, 'encryption.yaml')],
  })
  onTestFinished(async () => void (await server.stop()))
  const items = itemsOf(new Api(server.url))
  await items.create('kept', { rank: 'a' })
  await items.create('lost', { rank: 'b' })
  const runbook = await Runbook.open('lost-encryption-key', { url: server.url, cwd: folder })
  await write('encryption.yaml', 'two')
  await server.restart()
  await expect.poll(async () => (await runbook.try('metric')).stdout).toContain('items.items.example.com"} 2')
  expect(await runbook.run('state')).toContain('objects')
  expect(await items.api.get(items.at('kept'))).toMatchObject({ status: 500 })
  await runbook.run('remove')
  await runbook.run('back')
  await expect.poll(async () => (await items.api.get(items.at('kept'))).status).toBe(200)
  expect(await items.api.get(items.at('lost'))).toMatchObject({ status: 404 })
  await expect.poll(() => runbook.run('over')).toContain('items.items.example.com"} 0')
  await runbook.close()
})
