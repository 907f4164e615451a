import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Api } from './support/api.ts'
import { blocksOf, type DocBlock, fileOf } from './support/doc-blocks.ts'
import { fieldsOf } from './support/json.ts'
import { freePort } from './support/ports.ts'
import { Running } from './support/server.ts'
import { eventually } from './support/worlds.ts'

/** docs/operations/machine.md, in folders of its own and without a registry. The test stands for systemd. */

const root = fileURLToPath(new URL('..', import.meta.url))
const page = 'docs/operations/machine.md'
const execute = promisify(execFile)

let folder: string
let blocks: DocBlock[]
/** The folder in the archive. */
let packed: string
let server: Running | undefined

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-machine-'))
  for (const name of ['opt', 'usr', 'usr/local', 'usr/local/bin', 'srv', 'srv/plugins', 'npm', 'tmp'])
    await mkdir(join(folder, name))
  blocks = blocksOf(page, await readFile(join(root, page), 'utf8'))
  // Without the build of `npm run pack`, which would replace the program of other tests.
  const { stdout } = await execute(process.execPath, ['scripts/pack.mjs', folder], { cwd: root })
  packed = basename(stdout.trim()).replace(`-${process.platform}-${process.arch}.tgz`, '')
  const packing = ['pack', '--ignore-scripts', '--pack-destination', join(folder, 'srv/plugins')]
  await execute('npm', [...packing, '--workspace', 'plugins/uptime'], { cwd: root })
})
afterAll(async () => {
  await server?.kill()
  await rm(folder, { recursive: true, force: true })
})

/**
 * Returns a text of the page with the folders of the test, the build of this commit, and the platform of this machine.
 */
const adapted = (text: string) =>
  text
    .replaceAll('/opt', join(folder, 'opt'))
    .replaceAll('/usr/local/bin', join(folder, 'usr/local/bin'))
    .replaceAll('setpoint-0.1.0', packed)
    .replaceAll('linux-x64', `${process.platform}-${process.arch}`)

function textOf(mark: string): string {
  const found = blocks.find(({ marks }) => marks.includes(mark))
  if (found === undefined) throw new Error(`${page} has no block ${mark}`)
  return adapted(found.text)
}

/** Runs a block without its commands to systemd, which the test stands for. */
async function run(mark: string): Promise<string> {
  const PATH = [join(folder, 'usr/local/bin'), dirname(process.execPath), process.env.PATH].join(delimiter)
  const env = { PATH, HOME: folder, npm_config_offline: 'true', npm_config_cache: join(folder, 'npm') }
  const script = `set -euo pipefail\n${textOf(mark).replaceAll(/^systemctl .*$/gm, '')}\nsetpoint --version`
  return (await execute('bash', ['-c', script], { cwd: folder, env })).stdout.trim().split('\n').at(-1) ?? ''
}

it('installs the archive without npm, serves with the archive of a plugin, upgrades and rolls back', async () => {
  const git = async (...args: string[]) => (await execute('git', args, { cwd: root })).stdout.trim()
  const commit = await git('rev-parse', 'HEAD')
  const says = (version: string) =>
    `setpoint ${version} (commit ${commit.slice(0, 8)}, Node ${process.version})`
  expect(await run('install')).toBe(says('0.1.0'))
  const isReleased = (await git('tag', '--points-at', 'HEAD')).split('\n').includes('v0.1.0')
  if (!isReleased) expect(packed).toContain(`setpoint-0.1.0+${commit.slice(0, 8)}`)

  const unit = textOf('setpoint.service')
  expect(unit).toMatch(/^PrivateTmp=yes$/m)
  const [program = '', ...args] = /^ExecStart=(.*)$/m.exec(unit)?.[1]?.split(' ') ?? []
  const settings = blocks.filter(block => block.language === 'yaml').map(({ text }) => text)
  expect(blocks.filter(block => block.language === 'yaml').map(fileOf)).toEqual(['setpoint.yaml', undefined])
  const port = await freePort()
  await writeFile(join(folder, 'srv/setpoint.yaml'), settings.join('').replace('8090', String(port)))
  server = new Running(args, { program, cwd: join(folder, 'srv'), env: { TMPDIR: join(folder, 'tmp') } })
  await server.says(/^setpoint listening on /)
  const api = new Api(`http://127.0.0.1:${port}`)
  const stateOf = async () => fieldsOf((await api.get('/apis/plugins.setpoint.dev/v1/plugins/uptime')).body)
  await eventually(async () => expect((await stateOf()).status).toMatchObject({ phase: 'Started' }))
  expect(fieldsOf(JSON.parse(server.stderr.split('\n')[0] ?? ''))).toMatchObject({ version: '0.1.0', commit })
  expect(fieldsOf((await api.get('/version')).body).gitCommit).toBe(commit)

  await packNextVersion()
  expect(await run('upgrade')).toBe(says('0.2.0'))
  // It still runs from the folder of its version.
  expect((await api.get('/docs')).status).toBe(200)
  expect(await run('rollback')).toBe(says('0.1.0'))
  expect(await server.kill('SIGTERM')).toMatchObject({ code: 0 })
  expect(await readdir(join(folder, 'npm'))).toEqual([])
})

async function packNextVersion(): Promise<void> {
  const next = join(folder, 'setpoint-0.2.0')
  await cp(join(folder, 'opt', packed), next, { recursive: true, verbatimSymlinks: true })
  const manifest = join(next, 'apiserver/package.json')
  await writeFile(manifest, (await readFile(manifest, 'utf8')).replace('0.1.0', '0.2.0'))
  await execute('tar', ['-czf', adapted('setpoint-0.2.0-linux-x64.tgz'), 'setpoint-0.2.0'], { cwd: folder })
  const sum = `sha256sum ${adapted('setpoint-0.2.0-linux-x64.tgz')} > ${adapted('setpoint-0.2.0-linux-x64.tgz.sha256')}`
  await execute('bash', ['-c', sum], { cwd: folder })
}
