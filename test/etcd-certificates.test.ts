import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Etcd3 } from 'etcd3'
import { expect, it, onTestFinished } from 'vitest'
import { Api } from './support/api.ts'
import { type Certificates, makeCertificates } from './support/certificates.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { itemsOf } from './support/kinds.ts'
import { freePort } from './support/ports.ts'
import { type RunningServer, spawnProgram, startSharedServer } from './support/server.ts'
import { copyFixture, eventually } from './support/worlds.ts'

type Files = Pick<Certificates, 'ca' | 'cert' | 'key'>

async function copy(from: Files, to: Files): Promise<void> {
  for (const name of ['ca', 'cert', 'key'] as const) await copyFile(from[name], to[name])
}

it('a server says at its start that its client certificate for etcd has expired', async () => {
  const certificates = await makeCertificates()
  const file = (name: string) => join(certificates.folder, name)
  const { cert, key } = await certificates.client('/CN=setpoint', 0)
  await Promise.all([writeFile(file('old.pem'), cert), writeFile(file('old.key'), key)])
  const data = ['--listen', '127.0.0.1:0', '--etcd-endpoints', `https://127.0.0.1:${await freePort()}`]
  const tls = ['--etcd-ca', certificates.ca, '--etcd-cert', file('old.pem'), '--etcd-key', file('old.key')]
  const server = spawnProgram(['serve', ...data, ...tls], { cwd: certificates.folder })
  try {
    await server.says(/the certificate has expired, etcd refuses it/, 'stderr')
    await server.says(/Last error: [^"]*ECONNREFUSED [\d.:]+"/, 'stderr')
  } finally {
    await server.kill()
    await rm(certificates.folder, { recursive: true })
  }
})

it('a server follows etcd to another CA without a restart, and keeps its certificates if the new ones are unusable', async () => {
  const [ofEtcd, renewed] = [await makeCertificates(), await makeCertificates()]
  const plugin = await copyFixture('items-plugin')
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-etcd-tls-'))
  const ofServer = {
    ca: join(folder, 'ca.pem'),
    cert: join(folder, 'cert.pem'),
    key: join(folder, 'key.pem'),
  }
  await copy(ofEtcd, ofServer)
  let etcd: EtcdProcess | undefined
  let server: RunningServer | undefined
  try {
    etcd = await startEtcd({ unsafeNoFsync: true, tls: ofEtcd })
    const args = ['--etcd-ca', ofServer.ca, '--etcd-cert', ofServer.cert, '--etcd-key', ofServer.key]
    const running = await startSharedServer({
      store: 'etcd',
      etcd,
      etcdPrefix: '/p',
      plugins: [plugin],
      args,
    })
    server = running
    const items = itemsOf(new Api(running.url))
    let n = 0
    const writes = () => eventually(() => items.create(`item-${n++}`, {}))
    await writes()

    await writeFile(ofServer.key, 'half a key')
    await eventually(() => expect(running.stderr()).toContain('failed to reload the certificates for etcd'))
    await etcd.restart()
    await writes()

    await copy(renewed, ofServer)
    await eventually(() => expect(running.stderr()).toContain('reloaded the certificates for etcd'))
    // etcd reads its CA only at its start.
    await copy(renewed, ofEtcd)
    await etcd.restart()
    await writes()
  } finally {
    await server?.stop()
    await etcd?.stop()
    for (const each of [folder, plugin, ofEtcd.folder, renewed.folder]) await rm(each, { recursive: true })
  }
})

it('a server follows a changed password of its user in etcd without a restart', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-etcd-password-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const plugin = await copyFixture('items-plugin')
  onTestFinished(() => rm(plugin, { recursive: true }))
  const file = join(folder, 'password')
  await writeFile(file, 'secret\n')
  const etcd = await startEtcd({ unsafeNoFsync: true, flags: ['--bcrypt-cost', '4'] })
  onTestFinished(() => etcd.stop())
  const users = new Etcd3({ hosts: etcd.endpoint })
  const role = await users.role('root').create()
  for (const [name, password] of [
    ['root', 'root'],
    ['setpoint', 'secret'],
  ] as const)
    await (await users.user(name).create(password)).addRole(role)
  await users.auth.authEnable()
  users.close()
  const args = ['--etcd-user', 'setpoint', '--etcd-password-file', file]
  const server = await startSharedServer({ store: 'etcd', etcd, plugins: [plugin], args })
  onTestFinished(async () => void (await server.stop()))
  const items = itemsOf(new Api(server.url))
  await items.create('before', {})
  await writeFile(file, '')
  await eventually(() => expect(server.stderr()).toContain('failed to reload the password for etcd'))
  await writeFile(file, 'renewed')
  await eventually(() => expect(server.stderr()).toContain('reloaded the password for etcd'))
  // The old one still works, and then no longer.
  await items.create('meanwhile', {})
  const admin = new Etcd3({ hosts: etcd.endpoint, auth: { username: 'root', password: 'root' } })
  await admin.user('setpoint').setPassword('renewed')
  admin.close()
  await items.create('after', {})
  expect((await items.list()).names.length).toBe(3)
  expect(server.stderr()).not.toMatch(/secret|renewed/)
})
