import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readImage } from './support/image.ts'
import { arrayOf, fieldsOf, textOf } from './support/json.ts'
import { freePort } from './support/ports.ts'
import { Running, runProgram } from './support/server.ts'

/** `setpoint create plugin`, from packed tarballs and in folders outside the repository, as a new user would. */

const root = fileURLToPath(new URL('..', import.meta.url))
const run = promisify(execFile)
const quiet = ['--no-audit', '--no-fund', '--prefer-offline']

/** The environment without that of this test runner, which the runner of the new plugin would take for its own. */
const env = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_ENV|NODE_OPTIONS|SETPOINT_)/.test(name)),
)

let folder: string
/** The names of the packed packages. */
let archives: string[]
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-create-'))
  const names = ['apiserver', 'controller-runtime'].flatMap(name => ['--workspace', name])
  await run('npm', ['pack', ...names, '--ignore-scripts', '--pack-destination', folder], { cwd: root })
  archives = (await readdir(folder)).filter(name => name.endsWith('.tgz'))
  await run('npm', ['install', ...quiet, ...archives.map(name => `./${name}`)], { cwd: folder })
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe.each([
  ['JavaScript', []],
  ['TypeScript', ['--typescript']],
])('a new plugin in %s', (language, flags) => {
  let dir: string
  beforeAll(async () => {
    dir = join(folder, language)
    const args = ['setpoint', 'create', 'plugin', 'shop', '--dir', language, ...flags]
    expect((await run('npx', args, { cwd: folder, env })).stdout).toMatch(/^ {2}npm install$/m)
    // As the guide has it, so that the folder needs nothing outside of it.
    for (const name of archives) await cp(join(folder, name), join(dir, 'vendor', name))
    const vendored = archives.map(name => `./vendor/${name}`)
    await run('npm', ['install', ...quiet, ...vendored], { cwd: dir, env })
    await completeLock(join(dir, 'package-lock.json'))
  })

  test('passes its own tests', async () => {
    const result = await run('npm', ['test'], { cwd: dir, env }).catch((error: { stdout: string }) => error)
    expect(result.stdout).toMatch(/Tests .*17 passed/)
    expect(result).not.toHaveProperty('code')
  })

  test('starts, and its controller acts on objects that are created over HTTP', async () => {
    const address = `127.0.0.1:${await freePort()}`
    // Other shells do not pass npm's signals on.
    const started = { SETPOINT_LISTEN: address, npm_config_script_shell: 'bash' }
    const server = new Running(['start'], { program: 'npm', cwd: dir, env: started })
    const file = (name: string) => readFile(join(dir, 'site', `${name}.html`), 'utf8').catch(() => undefined)
    try {
      await server.says(/^setpoint listening on /m)
      await expect.poll(() => file('welcome')).toContain('<h1>Welcome</h1>')
      const pages = `http://${address}/apis/shop.example.com/v1/pages`
      const page = {
        apiVersion: 'shop.example.com/v1',
        kind: 'Page',
        metadata: { name: 'news' },
        spec: { title: 'News' },
      }
      const headers = { 'content-type': 'application/json' }
      const created = await fetch(pages, { method: 'POST', headers, body: JSON.stringify(page) })
      expect(created.status).toBe(201)
      await expect.poll(() => file('news')).toContain('<h1>News</h1>')
      await fetch(`${pages}/news`, { method: 'DELETE' })
      await expect.poll(async () => (await fetch(`${pages}/news`)).status).toBe(404)
      expect(await file('news')).toBeUndefined()
    } finally {
      await server.kill('SIGTERM')
    }
  })

  test('packs what the server needs, without tests and without what was compiled from deleted files', async () => {
    await mkdir(join(dir, 'dist'), { recursive: true })
    await writeFile(join(dir, 'dist/deleted.js'), '')
    const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: dir, env })
    const [packed] = JSON.parse(stdout.slice(stdout.indexOf('[\n')))
    const files: string[] = packed.files.map(({ path }: { path: string }) => path)
    const manifest = fieldsOf(JSON.parse(await readFile(join(dir, 'package.json'), 'utf8')))
    expect(files).toContain(String(manifest.exports).replace('./', ''))
    expect(files).toContain('resources/extensions/welcome.yaml')
    expect(files.filter(file => /test|deleted/.test(file))).toEqual([])
  })

  test('has a Dockerfile whose steps build and start it from the folder alone', async () => {
    const image = await readImage(join(dir, 'Dockerfile'))
    const [build, ...others] = image.builds
    const { from } = await readImage()
    expect([build?.from, image.from, others]).toEqual([from, from, []])
    expect(build?.instructions('COPY')).toEqual(['. .'])
    expect(image.instructions('COPY')).toEqual(['--from=build /app /app'])
    expect(image.instructions('USER')).toEqual(['1000:1000'])

    // `COPY . .`: the context is the folder without what .dockerignore names.
    const app = join(folder, `image-${language}`, 'app')
    const ignored = (await readFile(join(dir, '.dockerignore'), 'utf8')).trim().split('\n')
    await cp(dir, app, { recursive: true, filter: path => !ignored.includes(relative(dir, path)) })
    expect(existsSync(join(app, 'node_modules'))).toBe(false)
    // Nothing may come from a registry that the install did not use.
    const offline = { ...env, npm_config_offline: 'true' }
    for (const command of build?.instructions('RUN') ?? [])
      await run('sh', ['-c', command.replace(/--mount=\S+ /, '')], { cwd: app, env: offline })
    expect(existsSync(join(app, 'node_modules/vitest'))).toBe(false)

    const data = join(folder, `image-${language}`, 'data')
    await mkdir(data)
    const admin = ['--user', 'admin', '--group', 'setpoint:admins']
    const file = ['--token-file', join(data, 'tokens.yaml')]
    const { stdout: token } = await run('npx', ['setpoint', 'token', ...admin, ...file], { cwd: dir, env })
    const atHost = (text: string) => text.replace(/^\/app(?=\/|$)/, app).replace(/^\/data(?=\/|$)/, data)
    const port = await freePort()
    const [program = '', ...args] = arrayOf(JSON.parse(image.instructions('ENTRYPOINT')[0] ?? '')).map(textOf)
    const server = new Running([...args.map(atHost), ...image.args], {
      program,
      cwd: atHost(image.instructions('WORKDIR')[0] ?? ''),
      env: {
        ...Object.fromEntries(Object.entries(image.env).map(([name, value]) => [name, atHost(value)])),
        SETPOINT_LISTEN: image.env.SETPOINT_LISTEN?.replace('8090', String(port)) ?? '',
        SETPOINT_TOKEN_FILE: join(data, 'tokens.yaml'),
      },
    })
    try {
      await server.says(/^setpoint listening on /m)
      const welcome = join(data, 'site/welcome.html')
      await expect.poll(() => readFile(welcome, 'utf8').catch(() => '')).toContain('<h1>Welcome</h1>')
      const pages = `http://127.0.0.1:${port}/apis/shop.example.com/v1/pages`
      const statuses = await Promise.all([
        fetch(pages).then(({ status }) => status),
        fetch(pages, { headers: { authorization: `Bearer ${token.trim()}` } }).then(({ status }) => status),
      ])
      expect(statuses).toEqual([401, 200])
    } finally {
      await server.kill('SIGTERM')
    }
  })

  test('has no placeholder left, and ignores what does not belong in a repository', async () => {
    const entries = await readdir(dir, { recursive: true, withFileTypes: true })
    const files = entries.filter(each => each.isFile() && !/node_modules|vendor/.test(each.parentPath))
    for (const { parentPath, name } of files) {
      const text = await readFile(join(parentPath, name), 'utf8')
      expect(text, name).not.toMatch(/plugin-name|setpoint-version/)
    }
    const ignored = (await readFile(join(dir, '.gitignore'), 'utf8')).split('\n')
    expect(ignored).toEqual(expect.arrayContaining(['node_modules/', 'dist/', '.setpoint/']))
  })
})

/**
 * Adds the packages for other platforms that this machine's registry does not have. npm leaves them out of the lock,
 * and `npm ci` then refuses it.
 */
async function completeLock(file: string): Promise<void> {
  const lock = fieldsOf(JSON.parse(await readFile(file, 'utf8')))
  const packages = fieldsOf(lock.packages)
  const missing = Object.values(packages)
    .flatMap(each => Object.entries(fieldsOf(fieldsOf(each).optionalDependencies ?? {})))
    .filter(([name]) => packages[`node_modules/${name}`] === undefined)
    .map(([name, range]) => {
      // The lowest version of a range, since a lock has no ranges.
      const version = textOf(range).replace(/^[~^]/, '')
      return [`node_modules/${name}`, { version, optional: true, os: ['none'] }]
    })
  const complete = { ...lock, packages: { ...packages, ...Object.fromEntries(missing) } }
  await writeFile(file, JSON.stringify(complete, null, 2))
}

test('the templates depend on the versions that this repository uses', async () => {
  const read = async (path: string) => fieldsOf(JSON.parse(await readFile(join(root, path), 'utf8')))
  const own = fieldsOf((await read('package.json')).devDependencies)
  for (const language of ['javascript', 'typescript']) {
    const manifest = await read(`apiserver/templates/${language}/package.json`)
    expect(own).toMatchObject(fieldsOf(manifest.devDependencies))
    expect(manifest.engines).toEqual((await read('package.json')).engines)
  }
})

test('in a clone, the next steps install the packages of the clone, because a registry may not have them', async () => {
  const { stdout } = await runProgram(['create', 'plugin', 'cloned'], { cwd: folder })
  expect(stdout).toContain(`npm install ${join(root, 'apiserver/')} ${join(root, 'controller-runtime/')}\n`)
})

describe('create plugin refuses', () => {
  const create = (...args: string[]) => runProgram(['create', ...args], { cwd: folder })

  test.each([
    ['a bad name', ['plugin', 'My_Plugin'], "lowercase letters, digits and '-'"],
    ['a missing name', ['plugin'], "missing required argument 'name'"],
    ['a missing command', [], 'create needs a command'],
    ['an unknown command', ['gadget'], "unknown command 'gadget'; see `setpoint create --help`"],
    ['an unknown flag', ['plugin', 'a', '--rust'], "'--rust'; see `setpoint create plugin --help`"],
    ['an empty --dir', ['plugin', 'a', '--dir', ''], '--dir'],
  ])('%s', async (_what, args, says) => {
    const { code, stdout, stderr } = await create(...args)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(says)
    expect(stderr.trimEnd()).not.toContain('\n')
  })

  test('a folder that is not empty, and leaves it as it is', async () => {
    const occupied = join(folder, 'occupied')
    await mkdir(occupied)
    await writeFile(join(occupied, 'notes'), 'mine')
    const { code, stderr } = await create('plugin', 'occupied')
    expect([code, await readdir(occupied)]).toEqual([2, ['notes']])
    expect(stderr).toContain('"occupied" is not empty')
    expect((await create('plugin', 'a', '--dir', join(occupied, 'notes'))).stderr).toContain('not a folder')
  })
})
