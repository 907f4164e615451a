import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Api, objectOf } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { freePort } from './support/ports.ts'
import { type Running, runProgram, spawnProgram } from './support/server.ts'
import { Users } from './support/users.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

const accounts = '/api/v1/namespaces/default/serviceaccounts'

let folder: string
const running: Running[] = []

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-service-account-token-'))
})
afterEach(async () => {
  await Promise.all(running.splice(0).map(each => each.kill('SIGKILL')))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const command = (account: string, server: string, ...args: string[]) => [
  ...['service-account-token', account, '--server', server],
  ...args,
]

function renew(account: string, server: string, file: string, ...args: string[]): Running {
  const started = spawnProgram(command(account, server, '--output', file, '--renew', ...args))
  running.push(started)
  return started
}

/** Returns the content of a file once it exists. */
const content = (file: string) => expect.poll(() => readFile(file, 'utf8').catch(() => ''))

const modeOf = async (file: string) => ((await stat(file)).mode & 0o777).toString(8)

describe('setpoint service-account-token', () => {
  let world: SharedWorld
  let users: Users<'ann' | 'vic'>
  let secret: string

  beforeAll(async () => {
    users = await Users.make({ ann: ['setpoint:admins'], vic: ['setpoint:viewers'] })
    world = await startSharedWorld('embedded', [], { args: users.args })
    const ann = users.api(world.server.url, 'ann')
    objectOf(await ann.post(accounts, { metadata: { name: 'robot' } }), 201)
    objectOf(await ann.post('/api/v1/namespaces/default/secrets', { metadata: { name: 'anchor' } }), 201)
    secret = join(folder, 'ann.token')
    await writeFile(secret, `${users.tokenOf('ann')}\n`, { mode: 0o600 })
  })
  afterAll(async () => {
    await world?.end()
    await users?.remove()
  })

  const request = (...args: string[]) =>
    runProgram(command('default/robot', world.server.url, '--server-token-file', secret, ...args))

  /** Returns whom the server takes the token for. */
  async function userOf(token: string): Promise<unknown> {
    const headers = { authorization: `Bearer ${token}` }
    const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews'
    const { body } = await new Api(world.server.url).post(path, {}, { headers })
    return fieldsOf(fieldsOf(fieldsOf(body).status).userInfo).username
  }

  const claimsOf = (token: string) =>
    fieldsOf(JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()))

  it('prints a token of the account for an hour', async () => {
    const { code, stdout, stderr } = await request()
    expect([code, stderr]).toEqual([0, ''])
    const token = stdout.trimEnd()
    expect(stdout).toBe(`${token}\n`)
    expect(await userOf(token)).toBe('system:serviceaccount:default:robot')
    const { iat, exp } = claimsOf(token)
    expect(Number(exp) - Number(iat)).toBe(3_600)
  })

  it('asks for audiences, a life and a Secret that the token ends with', async () => {
    const { stdout } = await request(
      ...['--audience', 'vault', '--audience', 'registry', '--duration', '90m', '--bound-secret', 'anchor'],
    )
    const { iat, exp, aud, 'kubernetes.io': objects } = claimsOf(stdout)
    expect(aud).toEqual(['vault', 'registry'])
    expect(Number(exp) - Number(iat)).toBe(5_400)
    expect(objects).toMatchObject({ secret: { name: 'anchor' } })
  })

  it('replaces a file that only its owner can read, and follows no link of others', async () => {
    const file = join(folder, 'once')
    const elsewhere = join(folder, 'elsewhere')
    await writeFile(file, 'old', { mode: 0o644 })
    await writeFile(elsewhere, 'theirs')
    await symlink(elsewhere, `${file}.next`)
    expect(await request('--output', file)).toMatchObject({ code: 0, stdout: '', stderr: '' })
    expect(await userOf(await readFile(file, 'utf8'))).toBe('system:serviceaccount:default:robot')
    expect(await modeOf(file)).toBe('600')
    expect(await readFile(elsewhere, 'utf8')).toBe('theirs')
    expect(await readdir(folder)).not.toContain('once.next')
  })

  it('leaves a file to the group that alone may read it', async () => {
    const file = join(folder, 'shared')
    await writeFile(file, 'old', { mode: 0o640 })
    expect(await request('--output', file)).toMatchObject({ code: 0, stderr: '' })
    expect(await modeOf(file)).toBe('640')
    expect(await readFile(file, 'utf8')).not.toBe('old')
  })

  it.each([
    [['default/nobody'], /serviceaccounts "nobody" not found/],
    [['default/robot', '--bound-secret', 'missing'], /secrets "missing" not found/],
  ])('exits with 1 and the reason of the server: %j', async ([account = '', ...args], reason) => {
    const all = command(account, world.server.url, '--server-token-file', secret, ...args)
    expect(await runProgram(all)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(reason),
    })
  })

  it('exits with 1 without the permission, and if the server cannot be reached', async () => {
    const anonymous = await runProgram(command('default/robot', world.server.url))
    expect(anonymous).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^setpoint: .+\n$/),
    })
    const away = await runProgram(command('default/robot', `http://127.0.0.1:${await freePort()}`))
    expect(away).toMatchObject({ code: 1, stderr: expect.stringMatching(/^setpoint: .*ECONNREFUSED.*\n$/) })
  })

  it('renews with a credential that is replaced meanwhile, and exits with 0 on SIGTERM', async () => {
    const credential = join(folder, 'credential')
    const file = join(folder, 'renewed')
    await writeFile(credential, users.tokenOf('vic'), { mode: 0o600 })
    const program = renew('default/robot', world.server.url, file, '--server-token-file', credential)
    expect((await program.says(/^.*\n/))[0]).toBe(`setpoint keeps a token of default/robot in ${file}\n`)
    await program.says(/failed to renew the token, retrying/, 'stderr')
    await writeFile(credential, users.tokenOf('ann'))
    await content(file).not.toBe('')
    const token = await readFile(file, 'utf8')
    expect(await userOf(token)).toBe('system:serviceaccount:default:robot')
    expect(await modeOf(file)).toBe('600')
    const { code, stderr } = await program.kill('SIGTERM')
    expect(code).toBe(0)
    for (const hidden of [token, users.tokenOf('ann'), users.tokenOf('vic')])
      expect(stderr).not.toContain(hidden)
    expect(await readFile(file, 'utf8')).toBe(token)
  })

  it('waits for a server that has not started, and stops while it waits', async () => {
    const file = join(folder, 'waiting')
    const url = `http://127.0.0.1:${await freePort()}`
    const program = renew('default/robot', url, file)
    await program.says(/failed to renew the token.*\n.*failed to renew the token/s, 'stderr')
    expect((await program.kill('SIGTERM')).code).toBe(0)
    await expect(stat(file)).rejects.toThrow('ENOENT')
  })
})

describe('a token that is renewed', () => {
  /** A server whose tokens live for a second or two, which a real one refuses. */
  class ShortLived {
    issued = 0
    readonly #port: number
    #server = createServer()

    constructor(port: number) {
      this.#port = port
    }

    get url(): string {
      return `http://127.0.0.1:${this.#port}`
    }

    async start(): Promise<void> {
      this.#server = createServer((_request, response) => {
        this.issued++
        const spec = { expirationSeconds: 1 }
        const status = { token: `token-${this.issued}` }
        response.writeHead(201, { 'content-type': 'application/json' }).end(JSON.stringify({ spec, status }))
      }).listen(this.#port, '127.0.0.1')
      await once(this.#server, 'listening')
    }

    async stop(): Promise<void> {
      const closed = once(this.#server, 'close')
      this.#server.close()
      this.#server.closeAllConnections()
      await closed
    }
  }

  let server: ShortLived
  beforeAll(async () => {
    server = new ShortLived(await freePort())
    await server.start()
  })
  afterAll(() => server?.stop())

  it('is replaced again and again, after an outage of the server too', async () => {
    const file = join(folder, 'short')
    const program = renew('default/robot', server.url, file)
    await content(file).toMatch(/^token-[3-9]$/)
    await server.stop()
    await program.says(/failed to renew the token/, 'stderr')
    const before = await readFile(file, 'utf8')
    await server.start()
    await content(file).not.toBe(before)
  })

  it('is whole for its readers, whenever the program is killed', async () => {
    const file = join(folder, 'killed')
    // As after a kill between the creation of the new file and its renaming.
    await writeFile(`${file}.next`, 'tok', { mode: 0o400 })
    for (let round = 0; round < 3; round++) {
      const from = server.issued
      const program = renew('default/robot', server.url, file)
      await content(file).toMatch(/^token-\d+$/)
      await expect.poll(() => server.issued).toBeGreaterThan(from + 1)
      await program.kill('SIGKILL')
      expect(await readFile(file, 'utf8')).toMatch(/^token-\d+$/)
    }
  })
})

it('needs an account, a server, and for --renew a file', async () => {
  const refusals: [string[], string][] = [
    [[], "missing required argument 'account'"],
    [['robot', '--server', 'http://a'], '"robot" is not a service account: NAMESPACE/NAME is accepted'],
    [['a/b/c', '--server', 'http://a'], 'is not a service account'],
    [['default/robot'], 'service-account-token needs --server URL'],
    [['default/robot', '--server', 'http://a', '--renew'], '--renew needs --output FILE'],
    [['default/robot', '--server', 'http://a', '--duration', '9m'], '10m to 24h is accepted'],
    [['default/robot', '--server', 'http://a', '--listen', 'a:1'], "unknown option '--listen'"],
  ]
  for (const [args, reason] of refusals) {
    const { code, stdout, stderr } = await runProgram(['service-account-token', ...args])
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(reason)
    expect(stderr.trimEnd()).not.toContain('\n')
  }
  const { code, stdout } = await runProgram(['service-account-token', '--help'])
  expect(code).toBe(0)
  for (const flag of ['--server', '--duration', '--audience', '--bound-secret', '--renew', '--output'])
    expect(stdout).toContain(flag)
})
