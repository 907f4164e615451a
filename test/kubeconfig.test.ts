import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeCertificates } from './support/certificates.ts'
import { fieldsOf, textOf } from './support/json.ts'
import { Kubectl } from './support/kubectl.ts'
import { runProgram, startSharedServer } from './support/server.ts'

describe('setpoint kubeconfig', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'setpoint-kubeconfig-'))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  /** Returns the cluster and the user of the printed kubeconfig. */
  async function printed(args: readonly string[], env: Record<string, string> = {}) {
    const { code, stdout, stderr } = await runProgram(['kubeconfig', ...args], { env })
    if (code !== 0) throw new Error(`exit ${code}: ${stderr}`)
    const config = fieldsOf(load(stdout))
    const { clusters, users, contexts } = config
    expect(config).toMatchObject({ apiVersion: 'v1', kind: 'Config', 'current-context': 'setpoint' })
    expect(contexts).toEqual([{ name: 'setpoint', context: { cluster: 'setpoint', user: 'setpoint' } }])
    const [{ cluster }] = clusters as [{ cluster: unknown }]
    const [{ user }] = users as [{ user: unknown }]
    return { cluster, user, stderr }
  }

  async function refusal(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await runProgram(['kubeconfig', ...args])
    expect([code, stdout]).toEqual([2, ''])
    return stderr
  }

  const plain = { 'insecure-skip-tls-verify': true }

  it('without credentials is for the address that the server listens on by default', async () => {
    expect(await printed([])).toEqual({
      cluster: { server: 'http://127.0.0.1:8090', ...plain },
      user: {},
      stderr: '',
    })
  })

  it.each<[readonly string[], string]>([
    [['--listen', '[::1]:9000'], 'http://[::1]:9000'],
    [['--listen', '0.0.0.0:9000'], 'http://localhost:9000'],
    [['--base-path', '/cp'], 'http://127.0.0.1:8090/cp'],
    [['--server', 'http://cp.example.com/base/'], 'http://cp.example.com/base'],
  ])('with %s is for that URL', async (args, server) => {
    expect((await printed(args)).cluster).toEqual({ server, ...plain })
  })

  it('reads the settings of the server from the environment', async () => {
    const env = { SETPOINT_LISTEN: '127.0.0.1:9443', SETPOINT_BASE_PATH: '/cp' }
    expect((await printed([], env)).cluster).toEqual({ server: 'http://127.0.0.1:9443/cp', ...plain })
  })

  it('has the token of --token or of a file, and warns that kubectl does not send it without TLS', async () => {
    const file = join(folder, 'token')
    await writeFile(file, 'sp_one\n')
    const secure = ['--server', 'https://cp.example.com']
    expect(await printed([...secure, '--token', 'sp_two'])).toMatchObject({
      user: { token: 'sp_two' },
      stderr: '',
    })
    expect((await printed([...secure, '--token-file', file])).user).toEqual({ token: 'sp_one' })
    expect((await printed([...secure, '--token-file', file, '--token', 'sp_two'])).user).toEqual({
      token: 'sp_two',
    })
    expect((await printed(['--token', 'sp_two'])).stderr).toContain('kubectl sends no token over plain HTTP')
  })

  it("refuses the server's list of users for a token, and a URL that is not known", async () => {
    const list = join(folder, 'tokens.yaml')
    await writeFile(list, `- user: "ann"\n  groups: []\n  sha256: ${'0'.repeat(64)}\n`)
    expect(await refusal('--token-file', list)).toContain('is not one token')
    expect(await refusal('--token-file', join(folder, 'missing'))).toContain('cannot be read')
    expect(await refusal('--listen', '127.0.0.1:0')).toContain('give --server')
    expect(await refusal('--data-dir', folder)).toContain("unknown option '--data-dir'")
  })

  it('writes a file that only its owner can read, also over one that others can', async () => {
    const file = join(folder, 'config')
    await writeFile(file, 'x'.repeat(10_000), { mode: 0o644 })
    for (const output of [file, join(folder, 'new')]) {
      const { code, stdout } = await runProgram(['kubeconfig', '--output', output])
      expect([code, stdout, (await stat(output)).mode & 0o777]).toEqual([0, '', 0o600])
      expect(fieldsOf(load(await readFile(output, 'utf8'))).kind).toBe('Config')
    }
  })

  it('lets kubectl in, over TLS with a token and below a base path', async () => {
    const { ca, cert, key, folder: certificates } = await makeCertificates()
    const made = fieldsOf(
      JSON.parse((await runProgram(['token', '--user', 'ann', '--output', 'json'])).stdout),
    )
    const tokens = join(folder, 'accepted.yaml')
    await writeFile(
      tokens,
      `- user: ann\n  groups: ["setpoint:viewers"]\n  sha256: ${textOf(made.sha256)}\n`,
      { mode: 0o600 },
    )
    const args = ['--tls-cert', cert, '--tls-key', key, '--token-file', tokens, '--base-path', '/cp']
    const server = await startSharedServer({ args })
    const kubectl = await Kubectl.open('1.34')
    try {
      await mkdir(join(kubectl.home, '.kube'))
      const output = join(kubectl.home, '.kube/config')
      const own = ['--listen', `127.0.0.1:${server.port}`, '--base-path', '/cp', '--tls-cert', cert]
      const { stderr } = await runProgram([
        'kubeconfig',
        ...own,
        '--server-ca',
        ca,
        '--token',
        textOf(made.token),
        '--output',
        output,
      ])
      expect(stderr).toBe('')
      expect(await kubectl.output(['get', 'plugins', '--output', 'name'])).toBe(
        'plugin.plugins.setpoint.dev/empty\n',
      )
      const forbidden = await kubectl.run(['delete', 'plugin', 'nobody'])
      expect([forbidden.code, forbidden.stderr]).toEqual([1, expect.stringContaining('Forbidden')])
      const stranger = await kubectl.run(['get', 'plugins', '--token', 'sp_other'])
      expect([stranger.code, stranger.stderr]).toEqual([1, expect.stringContaining('logged in')])
    } finally {
      await kubectl.close()
      await server.stop()
      await rm(certificates, { recursive: true, force: true })
    }
  })
})
