import { execFile } from 'node:child_process'
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import * as sdk from '@setpoint/controller-runtime'
import * as testing from '@setpoint/controller-runtime/testing'
import { type DocBlock, fileOf, filesOfPage, placeOf } from './doc-blocks.ts'
import { fieldsOf } from './json.ts'
import { writeFiles } from './plugins.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const modules = join(root, 'node_modules')

/**
 * What `setpoint create --typescript` gives a reader: the tsconfig.json and the dev dependencies that blocks compile
 * with.
 */
const template = join(root, 'apiserver/templates/typescript')

/** Says that a parameter of JavaScript has no type. All other rules hold for JavaScript too. */
const untyped = /error TS70(05|06|19|31|34):/

interface CompiledBlocks {
  /** Errors of the compiler, each with the place of its block. */
  readonly errors: string[]
  /** The compiled modules of whole programs, by the place of their block. */
  readonly programs: ReadonlyMap<string, string>
}

/** Returns true for a block that the compiler checks. */
export function isCode({ language }: DocBlock): boolean {
  return ['js', 'ts'].includes(language)
}

/**
 * Compiles blocks in a folder outside the repository, all at once, with the packages and the tsconfig.json of a new
 * plugin.
 *
 *     marks        compiled as
 *     none         a module of its own
 *     fragment     a module that imports from test/fixtures/docs/prelude.ts what it uses and does not declare
 *     a file name  that file, next to the other files of its page
 */
export async function compileBlocks(folder: string, blocks: readonly DocBlock[]): Promise<CompiledBlocks> {
  const manifest = fieldsOf(JSON.parse(await readFile(join(template, 'package.json'), 'utf8')))
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
  await cp(join(template, 'tsconfig.json'), join(folder, 'tsconfig.json'))
  await mkdir(join(folder, 'node_modules', '@types'), { recursive: true })
  await mkdir(join(folder, 'node_modules', '@setpoint'))
  // The program of the page about metrics installs prom-client.
  for (const name of [...Object.keys(fieldsOf(manifest.devDependencies)), 'prom-client'])
    await symlink(join(modules, name), join(folder, 'node_modules', name))
  for (const name of ['controller-runtime', 'apiserver'])
    await symlink(join(root, name), join(folder, 'node_modules', '@setpoint', name))

  // The second guide continues in the folder of the first.
  const first = Object.entries(await filesOfPage('docs/guides/first-plugin.md'))
  const continued = join(folder, 'src', directoryOf('docs/guides/testing.md'))
  await writeFiles(continued, Object.fromEntries(first.filter(([file]) => file.endsWith('.js'))))
  const places = new Map<string, string>()
  const programs = new Map<string, string>()
  for (const block of blocks) {
    const file = fileOf(block)
    const path = join('src', directoryOf(block.page), file ?? `line-${block.line}.${block.language}`)
    places.set(path, placeOf(block))
    const isFragment = block.marks.includes('fragment')
    if (file === undefined && !isFragment)
      programs.set(placeOf(block), join(folder, 'dist', path.slice(4).replace(/\.ts$/, '.js')))
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), isFragment ? withPrelude(block.text) : block.text)
  }
  await cp(join(root, 'test/fixtures/docs/prelude.ts'), join(folder, 'src/prelude.ts'))

  // Some blocks run in a browser.
  const lib = ['--lib', 'es2023,esnext.disposable,dom']
  const flags = [
    ...['--project', folder, ...lib, '--allowJs', '--checkJs', '--noEmitOnError', 'false'],
    ...['--pretty', 'false'],
  ]
  const output = await promisify(execFile)(join(modules, '.bin/tsc'), flags, { cwd: folder }).then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  )
  const errors = output
    .split('\n')
    .filter(line => line.includes('error TS') && !(/^\S+\.js\(/.test(line) && untyped.test(line)))
    .map(line => line.replace(/^[^(\s]+/, path => places.get(path) ?? path))
  return { errors, programs }
}

function directoryOf(page: string): string {
  return page.replaceAll('/', '-').replace(/\.md$/, '')
}

const sdkNames = Object.keys(sdk)
const testingNames = Object.keys(testing)

/** Imports the names that a fragment uses and does not declare, on its first line, so that line numbers stay. */
function withPrelude(text: string): string {
  const code = text.replace(/\/\/ .*$/gm, '').replace(/^import .*$/gm, '')
  const imported = text.match(/^import .*$/gm)?.join('\n') ?? ''
  const isWanted = (name: string) =>
    new RegExp(`(?<![.\\w'])${name}\\b(?!')`).test(code) &&
    !new RegExp(`\\b${name}\\b`).test(imported) &&
    !new RegExp(`\\b(const|let|class|function|using) (\\{[^}]*\\b)?${name}\\b`).test(code)
  const own = [...preludeNames].filter(isWanted)
  const imports = [
    `import { ${own.join(', ')} } from '../prelude.js'`,
    `import { ${sdkNames.filter(isWanted).filter(name => !own.includes(name))} } from '@setpoint/controller-runtime'`,
    `import { ${testingNames.filter(isWanted).filter(name => !own.includes(name))} } from '@setpoint/controller-runtime/testing'`,
  ]
  return `${imports.join('; ')}; ${text}`
}

const prelude = await readFile(join(root, 'test/fixtures/docs/prelude.ts'), 'utf8')
const preludeNames = new Set(
  [...prelude.matchAll(/^export (?:declare )?(?:const|class|function) (\w+)/gm)].map(([, name = '']) => name),
)
