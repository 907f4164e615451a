import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, objectOf, refusalOf } from './support/api.ts'
import { filesOfPage } from './support/doc-blocks.ts'
import { fieldsOf, textOf } from './support/json.ts'
import { pluginsPath } from './support/kinds.ts'
import { writePlugin } from './support/plugins.ts'
import { type Running, type RunningServer, spawnProgram, startSharedServer } from './support/server.ts'
import { Users } from './support/users.ts'
import { eventually } from './support/worlds.ts'

/** The plugin of the guide, with users and roles: its controller in the server, and in a process of its own. */

const apiVersion = 'databases.example.com/v1'
const account = 'setpoint-system/controllers'

it('reaches the same state after crashes, and makes no Secret for a database that is being deleted, by the test of the guide', async () => {
  const dir = await writePlugin(await filesOfPage('docs/guides/databases.md'))
  try {
    await symlink(fileURLToPath(new URL('../node_modules', import.meta.url)), join(dir, 'node_modules'))
    const patterns = ['after a crash before or after', 'makes no dependents']
    const args = ['--test', '--test-reporter=tap', ...patterns.map(each => `--test-name-pattern=${each}`)]
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: dir })
    expect(stdout).toMatch(/^# pass 2$/m)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})

describe.each(['all', 'controllers'])('the plugin of the guide with --role %s', role => {
  let folder: string
  let dir: string
  let users: Users<'ann' | 'runner'>
  let server: RunningServer
  let controllers: Running | undefined
  let ann: Api

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'setpoint-databases-'))
    dir = await writePlugin(await filesOfPage('docs/guides/databases.md'))
    users = await Users.make({ ann: ['setpoint:admins'], runner: ['setpoint:controllers'] })
    const apart = role === 'controllers' ? ['--role', 'apiserver'] : []
    server = await startSharedServer({ plugins: [dir], args: [...users.args, ...apart] })
    ann = users.api(server.url, 'ann')
    if (role === 'controllers') {
      const token = join(folder, 'token')
      await writeFile(token, users.tokenOf('runner'), { mode: 0o600 })
      controllers = spawnProgram([
        ...['serve', '--role', 'controllers', '--server', server.url, '--server-token-file', token],
        ...['--plugin', dir],
      ])
      await controllers.says(/^setpoint controllers running against /)
    }
    const metadata = { name: 'team-a', annotations: { 'databases.example.com/quota': '2' } }
    objectOf(await ann.post('/api/v1/namespaces', { metadata }), 201)
  })
  afterAll(async () => {
    await controllers?.kill('SIGKILL')
    await server?.stop()
    await users?.remove()
    await Promise.all([folder, dir].map(each => rm(each, { recursive: true, force: true })))
  })

  const databases = `/apis/${apiVersion}/namespaces/team-a/databases`
  const create = (name: string) =>
    ann.post(databases, { apiVersion, kind: 'Database', metadata: { name }, spec: { engine: 'a' } })

  it('is refused what no role grants, and says so', async () => {
    await eventually(async () => {
      const { status } = objectOf(await ann.get(`${pluginsPath}/databases`))
      expect(JSON.stringify(status.problems)).toContain('on secrets of core')
    })
    expect(refusalOf(await create('orders'), 500).message).toContain('the admit hook of plugin "databases"')
  })

  it('keeps a password in a Secret, once its role is bound', async () => {
    const name = 'setpoint:plugin:databases'
    const apiGroup = 'rbac.authorization.k8s.io'
    const [namespace, controllersName] = account.split('/')
    const binding = {
      metadata: { name },
      roleRef: { apiGroup, kind: 'ClusterRole', name },
      subjects: [
        { apiGroup, kind: 'User', name },
        { apiGroup, kind: 'Group', name: 'setpoint:controllers' },
        { kind: 'ServiceAccount', namespace, name: controllersName },
      ],
    }
    objectOf(await ann.post(`/apis/${apiGroup}/v1/clusterrolebindings`, binding), 201)
    await eventually(async () => objectOf(await create('orders'), 201))
    const secret = await eventually(async () => {
      const found = objectOf(await ann.get('/api/v1/namespaces/team-a/secrets/orders-password'))
      expect(objectOf(await ann.get(`${databases}/orders`)).status).toEqual({ secret: 'orders-password' })
      return found
    })
    expect(textOf(fieldsOf(secret.raw.data).password)).toHaveLength(44)
    const done = await ann.post(`${databases}/orders/backup`, { to: 's3://copies' })
    expect(done).toMatchObject({ status: 200, body: { file: 's3://copies/team-a/orders' } })
  })

  it('admits as many databases as the namespace says', async () => {
    objectOf(await create('bills'), 201)
    expect(refusalOf(await create('third'), 422).message).toContain('team-a has its 2 databases')
  })
})
