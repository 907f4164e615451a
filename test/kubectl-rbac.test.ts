import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Certificates, makeCertificates } from './support/certificates.ts'
import { Kubectl, kubectlVersions } from './support/kubectl.ts'
import { Users } from './support/users.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

/** Roles and bindings in kubectl. */

let world: SharedWorld
let users: Users<'ann' | 'bob'>
/** kubectl sends no token over plain HTTP. */
let certificates: Certificates

beforeAll(async () => {
  users = await Users.make({ ann: ['setpoint:admins'], bob: ['team'] })
  certificates = await makeCertificates()
  const { cert, key } = certificates
  const args = [...users.args, '--tls-cert', cert, '--tls-key', key]
  world = await startSharedWorld('embedded', ['items-plugin'], { args })
})
afterAll(async () => {
  await world?.end()
  await users?.remove()
  await rm(certificates.folder, { recursive: true, force: true })
})

describe.each(kubectlVersions)('kubectl %s', version => {
  let ann: Kubectl
  let bob: Kubectl
  const name = (base: string) => `${base}-${version}`

  beforeAll(async () => {
    const open = async (user: 'ann' | 'bob') => {
      const kubectl = await Kubectl.open(version)
      const config = {
        ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'a' },
        clusters: [
          { name: 'a', cluster: { server: world.server.url, 'certificate-authority': certificates.ca } },
        ],
        users: [{ name: 'a', user: { token: users.tokenOf(user) } }],
        contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
      }
      await writeFile(join(kubectl.home, 'config'), JSON.stringify(config), { mode: 0o600 })
      return kubectl
    }
    ann = await open('ann')
    bob = await open('bob')
  })
  afterAll(() => Promise.all([ann?.close(), bob?.close()]))

  const run = (kubectl: Kubectl, ...args: string[]) =>
    kubectl.run(['--kubeconfig', join(kubectl.home, 'config'), ...args])

  it('creates roles and bindings, and shows what they allow', async () => {
    const created = async (...args: string[]) => {
      const { code, stdout, stderr } = await run(ann, 'create', ...args)
      expect([code, stderr, stdout]).toEqual([0, '', expect.stringContaining('created')])
    }
    await created('clusterrole', name('items'), '--verb=get,list', '--resource=items.items.example.com')
    await created('clusterrolebinding', name('items'), `--clusterrole=${name('items')}`, '--user=bob')
    await created('role', name('maps'), '--verb=get', '--resource=configmaps', '--namespace=default')
    await created(
      'rolebinding',
      name('maps'),
      `--role=${name('maps')}`,
      '--group=team',
      '--namespace=default',
    )
    const { stdout } = await run(ann, 'get', 'rolebindings', '--namespace=default', '--output=wide')
    expect(stdout).toMatch(new RegExp(`^${name('maps')} +Role/${name('maps')} +\\S+ +team *$`, 'm'))
    expect((await run(ann, 'describe', 'clusterrole', name('items'))).stdout).toContain('[get list]')

    const canI = async (...args: string[]) => (await run(bob, 'auth', 'can-i', ...args)).stdout.trim()
    expect(await canI('get', 'items.items.example.com')).toBe('yes')
    expect(await canI('delete', 'items.items.example.com')).toBe('no')
    expect(await canI('get', 'configmaps', '--namespace=default')).toBe('yes')
    expect(await canI('get', 'configmaps', '--namespace=setpoint-system')).toBe('no')
    expect(await canI('get', '/metrics')).toBe('no')
    const list = await canI('--list', '--namespace=default')
    expect(list).toMatch(/^items\.items\.example\.com +\[\] +\[\] +\[get list\]$/m)
    expect(list).toMatch(/^configmaps +\[\] +\[\] +\[get\]$/m)
    expect((await run(ann, 'auth', 'can-i', 'list', 'items', '--as=bob')).stdout.trim()).toBe('yes')
    expect((await run(bob, 'get', 'secrets')).stderr).toContain('User "bob" cannot list resource "secrets"')
  })
})
