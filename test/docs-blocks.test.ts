import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseEnv, promisify } from 'node:util'
import { load } from 'js-yaml'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseCommandLine } from '../apiserver/src/cli/flags.ts'
import { TokenList } from '../apiserver/src/security/token-list.ts'
import { Api } from './support/api.ts'
import { blocksOf, type DocBlock, docBlocks, filesOfPage, placeOf } from './support/doc-blocks.ts'
import { compileBlocks, isCode } from './support/doc-compile.ts'
import { runShell, type StubbedCommand } from './support/doc-shell.ts'
import { fieldsOf, isFields } from './support/json.ts'
import { pluginModule, pluginStates, writeFiles, writePlugin } from './support/plugins.ts'
import { freePort } from './support/ports.ts'
import { runProgram, type ServerProcess, startServer } from './support/server.ts'

/**
 * Every code block of the guides and of the reference is compiled, run, applied or compared.
 * docs/maintainers/testing.md has the marks that say how.
 */

const root = fileURLToPath(new URL('..', import.meta.url))
const blocks = await docBlocks()
/** `browser.test.ts` opens the pages, and `docs-facts.test.ts` draws the diagrams. */
const languages = ['js', 'ts', 'sh', 'json', 'yaml', 'text', 'promql', 'html', 'mermaid']
const inLanguage = (language: string) => blocks.filter(block => block.language === language)

/** Blocks that must fail, so that the check cannot pass by checking nothing. */
const planted = blocksOf(
  'planted.md',
  [
    '```ts\nimport { defineModle } from "@setpoint/controller-runtime"\n```',
    '```js\nimport { definePlugin } from "@setpoint/controller-runtime"\n\nexport default definePlugin({ nam: "x" })\n```',
    '```ts fragment\nawait client.get(Site, "home", { nonsense: true })\n```',
  ].join('\n'),
)

let folder: string
let address: string
let server: ServerProcess
let api: Api
let errors: string[]
/** The plugins among the whole programs: their names by their files. */
let pluginNames: Map<string, string>
/** Folders of plugins. */
const written: string[] = []

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-docs-'))
  address = `127.0.0.1:${await freePort()}`
  await mkdir(join(folder, 'code'))
  const code = [...blocks, ...planted].filter(isCode).map(atServer)
  const compiled = await compileBlocks(join(folder, 'code'), code)
  errors = compiled.errors
  // The guides run in a clone, and the first plugin has a folder next to it.
  const clone = join(folder, 'clone')
  await mkdir(clone)
  for (const name of ['node_modules', 'controller-runtime', 'plugins', 'package.json'])
    await symlink(join(root, name), join(clone, name))
  const pages = join(folder, 'pages')
  expect(await runProgram(['create', 'plugin', 'pages', '--dir', pages])).toMatchObject({ code: 0 })
  await writeFiles(pages, await filesOfPage('docs/guides/first-plugin.md'))
  await symlink(pages, join(clone, 'my-plugin'))
  written.push(await writePlugin({ 'index.js': pluginModule('shop') }))
  const versions = join(folder, 'versions')
  await writeFiles(versions, await filesOfPage('docs/guides/versions.md'))
  const programs = [...compiled.programs].filter(([place]) => !place.startsWith('planted.md'))
  pluginNames = await runPrograms(programs.map(([, file]) => file))
  for (const file of pluginNames.keys())
    written.push(await writePlugin({ 'index.js': await readFile(file, 'utf8') }))
  server = await startServer({
    plugins: [
      join(root, 'plugins/uptime'),
      join(root, 'plugins/certificates'),
      join(root, 'plugins/webhooks'),
      pages,
      join(versions, 'release-2'),
      ...written,
    ],
    args: ['--listen', address, '--log-level', 'warn'],
    env: {
      ...parseEnv(await readFile(join(root, 'scripts/start.env'), 'utf8')),
      UPTIME_JOURNAL_DIR: join(folder, 'journal'),
      SITE_DIR: join(pages, 'site'),
    },
  })
  api = new Api(server.url)
})
afterAll(async () => {
  await server?.stop()
  await Promise.all([folder, ...written].map(dir => rm(dir, { recursive: true, force: true })))
})

/** Imports programs in one process. Returns the names of those that export a plugin. @throws Error if one fails */
async function runPrograms(files: readonly string[]): Promise<Map<string, string>> {
  const script = `
    import { isPlugin } from '@setpoint/controller-runtime'
        for (const file of process.argv.slice(1)) {
      const { default: value } = await import(file)
      if (isPlugin(value)) console.log(file + ' ' + value.name)
    }
    process.exit()`
  const args = ['--input-type=module', '--eval', script, ...files]
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: join(folder, 'code') })
  return new Map([...stdout.matchAll(/^(\S+) (\S+)$/gm)].map(([, file = '', name = '']) => [file, name]))
}

/** Replaces the address of the guides with that of the test's server. */
function atServer(block: DocBlock): DocBlock {
  return { ...block, text: block.text.replaceAll('127.0.0.1:8090', address) }
}

test('every block has a language that is checked', () => {
  expect(blocks.filter(({ language }) => !languages.includes(language)).map(placeOf)).toEqual([])
  expect(blocks.length).toBeGreaterThan(100)
})

test('JavaScript and TypeScript compile under strict, with the setup of a new plugin', () => {
  expect(errors.filter(error => !error.startsWith('planted.md'))).toEqual([])
})

test.each(planted.map(placeOf))('a wrong block is found: %s', place => {
  expect(errors.filter(error => error.startsWith(place)).length).toBeGreaterThan(0)
})

test('whole programs run, and a server starts those that are plugins', async () => {
  const names = [...pluginNames.values()]
  expect(names).toEqual(['crontabs', 'notes', 'tasks'])
  const states = await pluginStates(api)
  for (const name of [...names, 'gadgets', 'pages', 'uptime', 'certificates', 'webhooks']) {
    // Without its definition, the controller of `crontabs` says after a while that the kind is not served.
    const problems = name === 'crontabs' ? {} : { problems: '[]' }
    expect(states.get(name), name).toMatchObject({ phase: 'Started', ...problems })
  }
})

test('shell blocks run, and their requests have the status that the page says', async () => {
  await expect.poll(() => existsSync(join(folder, 'pages/site/welcome.html'))).toBe(true)
  const run = await runShell(inLanguage('sh'), { clone: join(folder, 'clone'), url: server.url, folder })
  expect(run.problems).toEqual([])
  expect(run.requests).toBeGreaterThan(30)
  expect(run.stubbed.map(problemOfCommand).filter(problem => problem !== undefined)).toEqual([])
})

test('a wrong shell block is found', async () => {
  const wrong = blocksOf(
    'planted.md',
    [
      '```sh\ncurl -s -X DELETE http://127.0.0.1:8090/apis/uptime.example.com/v1/probes/none\n```',
      '```sh\nsetpiont serve\n```',
      '```sh\nnpm start -- --plugins ./none\n```',
      '```sh\nnpm run nothing\n```',
    ].join('\n'),
  )
  const run = await runShell(wrong, { clone: join(folder, 'clone'), url: server.url, folder })
  expect(run.problems.join('\n')).toMatch(
    /^planted\.md:1: 404 instead of 2\.\. .*\nplanted\.md:4: setpiont serve\n/,
  )
  expect(run.stubbed.map(problemOfCommand)).toEqual([
    expect.stringContaining("unknown option '--plugins'"),
    expect.stringContaining('is not a script'),
  ])
})

describe('JSON', () => {
  const [responses, others] = [true, false].map(isResponse =>
    inLanguage('json').filter(({ marks }) => (marks[0] === 'GET') === isResponse),
  )

  test.each((responses ?? []).map(block => [placeOf(block), block] as const))(
    'of a response has the fields of the real one: %s',
    async (_, { marks, text }) => {
      const { body } = await api.get(marks[1] ?? '')
      expect(shapeOf(JSON.parse(text))).toEqual(shapeOf(body))
    },
  )

  test('is valid', () => {
    expect(responses?.length).toBeGreaterThan(1)
    for (const block of others ?? []) expect(() => documentsOf(block), placeOf(block)).not.toThrow()
  })
})

test.each(inLanguage('yaml').map(block => [placeOf(block), block] as const))(
  'YAML is applied, or read as the file that it is: %s',
  async (_, { text }) => {
    const value = load(text)
    if (Array.isArray(value)) expect(() => new TokenList(text)).not.toThrow()
    else if (isFields(value) && value.kind === undefined) {
      expect(parseCommandLine(['serve', '--config', 'file'], {}, () => text).command).toBe('serve')
    } else {
      const { apiVersion, kind, metadata } = fieldsOf(value)
      const plural = `${String(kind).toLowerCase()}s`.replace(/ys$/, 'ies')
      const path = `/apis/${apiVersion}/${plural}`
      const existing = await api.get(`${path}/${fieldsOf(metadata).name}`)
      if (existing.status === 200) expect(existing.body).toMatchObject(fieldsOf(value))
      else expect(await api.post(`${path}?fieldValidation=Strict`, value)).toMatchObject({ status: 201 })
    }
  },
)

test('text of a response has the lines of the real one', async () => {
  const [block, ...more] = inLanguage('text').filter(({ marks }) => marks[0] === 'GET')
  expect(more).toEqual([])
  const { text } = await api.get(block?.marks[1] ?? '')
  const checks = (lines: string) =>
    [...lines.matchAll(/^\[[+-]\](\w+) (ok|failed: .+)$/gm)].map(([, name]) => name)
  expect(checks(text)).toEqual(checks(block?.text ?? ''))
})

test('queries name metrics that exist', async () => {
  const { text } = await api.get('/metrics')
  const known = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name)
  for (const block of inLanguage('promql')) {
    for (const [, name] of block.text.matchAll(/(\w+)\{/g)) expect(known, placeOf(block)).toContain(name)
  }
})

/** Replaces each value by its type. Empty lists and objects stand for any content. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return 'array'
  if (!isFields(value)) return typeof value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, shapeOf(field)]))
}

/** Parses one document, or one for each line. */
function documentsOf({ text }: DocBlock): unknown[] {
  const isLines = text
    .trimEnd()
    .split('\n')
    .every(line => /^\{.*\}$/.test(line))
  return (isLines ? text.trimEnd().split('\n') : [text]).map(each => JSON.parse(each))
}

/** Returns what is wrong with a command that the walkthrough does not run. */
function problemOfCommand({ place, cwd, argv }: StubbedCommand): string | undefined {
  const problem = problemOf(argv, cwd)
  return problem === undefined ? undefined : `${place}: ${argv.join(' ')}: ${problem}`
}

function problemOf([program, command = '', ...args]: readonly string[], cwd: string): string | undefined {
  if (program === 'node') return command === '--test' ? undefined : 'is neither -e nor --test'
  if (program === 'npx') {
    if (command === 'vitest') {
      const missing = args.slice(1).find(file => !existsSync(join(root, file)))
      return missing === undefined ? undefined : `${missing} does not exist`
    }
    return command === 'setpoint' ? problemOfFlags(args, cwd) : 'runs something other than setpoint'
  }
  if (['ci', 'init', 'pack', 'test'].includes(command)) return undefined
  if (command === 'install') {
    // The packages of this repository, which a page takes from its clone.
    const missing = args.find(
      // `npm pack` has made the archives.
      arg =>
        /^[./]/.test(arg) &&
        !arg.endsWith('.tgz') &&
        !existsSync(join(root, basename(arg))) &&
        !existsSync(resolve(cwd, arg)),
    )
    return missing === undefined ? undefined : `${missing} does not exist`
  }
  if (command === 'start') return problemOfFlags(['serve', ...args.slice(1)], cwd)
  const [script = '', ...flags] = args
  if (command === 'run' && script in created) return undefined
  if (command !== 'run' || !(script in scripts)) return 'is not a script of package.json'
  const source = existsSync(join(root, 'test', script)) ? sourceOf(join(root, 'test', script)) : ''
  const unknown = flags.find(flag => /^--./.test(flag) && !source.includes(`${flag.slice(2)}: { type`))
  return unknown === undefined ? undefined : `has no flag ${unknown}`
}

const scripts = scriptsOf('package.json')
/** Of a plugin that `setpoint create` makes. */
const created = scriptsOf('apiserver/templates/javascript/package.json')

function scriptsOf(manifest: string): Readonly<Record<string, unknown>> {
  return fieldsOf(fieldsOf(JSON.parse(readFileSync(join(root, manifest), 'utf8'))).scripts)
}

function sourceOf(dir: string): string {
  const files = readdirSync(dir).filter(file => file.endsWith('.ts'))
  return files.map(file => readFileSync(join(dir, file), 'utf8')).join('\n')
}

/** Parses the flags as the program does, which reads the folders of plugins. */
function problemOfFlags(args: readonly string[], cwd: string): string | undefined {
  try {
    const absolute = args.map(arg => (/^\.{1,2}(\/|$)/.test(arg) ? resolve(cwd, arg) : arg))
    parseCommandLine(absolute, {}, file => readFileSync(resolve(cwd, file), 'utf8'))
    return undefined
  } catch (error) {
    return String(error)
  }
}
