/**
 * Renders build/sdk-names.md, the reference of every public name of the SDK, from the declarations of the built SDK. Exits
 * with 1 if a name has no docstring.
 *
 *     node scripts/render-sdk.mjs            writes the page
 *     node scripts/render-sdk.mjs --check    writes nothing
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const dist = fileURLToPath(new URL('../controller-runtime/dist/', import.meta.url))
const page = new URL('../build/sdk-names.md', import.meta.url)

/**
 * @typedef {{ name: string, folder: string, summary: string, doc: string, code: string }} Declaration
 */

/**
 * Returns the names that a module exports, with the file and the local name of each declaration.
 * @param {string} file
 * @returns {Map<string, { file: string, local: string }>}
 */
function exportsOf(file) {
  /** @type {Map<string, { file: string, local: string }>} */
  const found = new Map()
  const text = readFileSync(file, 'utf8')
  for (const [, name] of text.matchAll(
    /^export (?:declare )?(?:abstract )?(?:class|function|const|interface|type|enum) (\w+)/gm,
  ))
    found.set(name, { file, local: name })
  for (const [, all, list, from] of text.matchAll(
    /^export (?:type )?(?:(\*)|\{([^}]*)\}) from '([^']+)'/gm,
  )) {
    const source = join(dirname(file), from.replace(/\.(ts|js)$/, '.d.ts'))
    const exported = exportsOf(source)
    if (all) for (const [name, origin] of exported) found.set(name, origin)
    for (const part of list?.split(',') ?? []) {
      const [, local, alias] = /^\s*(?:type )?(\w+)(?: as (\w+))?\s*$/.exec(part) ?? []
      const origin = local && exported.get(local)
      if (local && origin) found.set(alias ?? local, origin)
    }
  }
  return found
}

/**
 * Returns the declarations of one name in its module, with all overloads and the comment before the first.
 * @param {string} file
 * @param {string} local
 */
function declarationOf(file, local) {
  const text = readFileSync(file, 'utf8')
  const pattern = new RegExp(
    `^export (?:declare )?(?:abstract )?(?:class|function|const|interface|type|enum) ${local}\\b`,
    'gm',
  )
  let doc = ''
  const codes = []
  for (const match of text.matchAll(pattern)) {
    const before = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*$/.exec(text.slice(0, match.index))?.[1]
    if (doc === '' && before !== undefined) doc = proseOf(before)
    codes.push(text.slice(match.index, endOf(text, match.index)))
  }
  return { doc, code: codes.map(tidy).join('\n') }
}

/**
 * Returns the end of a declaration: its closing bracket, or a semicolon outside all brackets.
 * @param {string} text
 * @param {number} start
 */
function endOf(text, start) {
  const hasBody = /^export (?:declare )?(?:abstract )?(?:class|interface|enum) /.test(
    text.slice(start, start + 60),
  )
  let depth = 0
  for (let at = start; at < text.length; at++) {
    const rest = text.slice(at, at + 2)
    const char = text[at]
    if (rest === '/*') at = text.indexOf('*/', at) + 1
    else if (rest === '//') at = text.indexOf('\n', at)
    else if (char === "'" || char === '"' || char === '`') {
      const quote = char
      for (at++; text[at] !== quote; at++) if (text[at] === '\\') at++
    } else if (char === '{' || char === '(' || char === '[') depth++
    else if (char === '}' || char === ')' || char === ']') {
      depth--
      if (depth === 0 && hasBody && char === '}') return at + 1
    } else if (char === ';' && depth === 0) return at
  }
  return text.length
}

/** @param {string} code */
function tidy(code) {
  return code
    .replace(/^export (?:declare )?/, '')
    .split('\n')
    .filter(line => !/^\s*(?:#private;|private .*)$/.test(line))
    .map(line => line.replace(/^( {4})+/, spaces => ' '.repeat(spaces.length / 2)).trimEnd())
    .join('\n')
}

/**
 * Converts a comment to Markdown. Indented drawings and examples become code.
 * @param {string} comment
 */
function proseOf(comment) {
  const lines = comment.split('\n').map(line => line.replace(/^\s*\*? ?/, '').trimEnd())
  return lines
    .join('\n')
    .trim()
    .replace(
      /^@(param|returns?|throws) /gm,
      (_all, tag) => `_${tag === 'param' ? 'Takes' : tag === 'throws' ? 'Throws' : 'Returns'}:_ `,
    )
    .replace(/ @(throws) /g, ' _Throws:_ ')
}

/** @param {string} doc */
function summaryOf(doc) {
  const first = doc.split(/\n\n|\n(?=_)/)[0]?.replaceAll('\n', ' ') ?? ''
  return (/^.*?[.:](?= |$)/.exec(first)?.[0] ?? first).replace(/:$/, '.')
}

/**
 * @param {string} entry
 * @returns {Declaration[]}
 */
function declarationsOf(entry) {
  return [...exportsOf(join(dist, entry))]
    .map(([name, { file, local }]) => {
      const { doc, code } = declarationOf(file, local)
      const folder = dirname(relative(dist, file)).split('/')[0] ?? '.'
      return { name, folder: folder === '.' ? 'others' : folder, doc, code, summary: summaryOf(doc) }
    })
    .sort((a, b) => (a.folder < b.folder ? -1 : a.folder > b.folder ? 1 : a.name < b.name ? -1 : 1))
}

const entries = [
  { title: '@setpoint/controller-runtime', declarations: declarationsOf('index.d.ts') },
  { title: '@setpoint/controller-runtime/testing', declarations: declarationsOf('testing/index.d.ts') },
]
// Two entries may use one name for different things.
const [main, testing] = entries.map(({ declarations }) => declarations)
for (const each of testing ?? []) {
  const twin = main?.find(({ name }) => name === each.name)
  if (twin !== undefined && twin.code !== each.code) each.name = `${each.name} (testing)`
}

/** @param {string} name converted to an anchor as GitHub does */
function anchorOf(name) {
  return name
    .toLowerCase()
    .replace(/[^a-z0-9 _-]/g, '')
    .replaceAll(' ', '-')
}

const all = entries.flatMap(({ declarations }) => declarations)
const without = all.filter(({ doc }) => doc === '').map(({ name }) => name)

/** @type {string[]} */
const parts = [
  '# Every public name of the SDK',
  '',
  'What a plugin may import, by entry and by folder of the sources. The pages of the SDK, from',
  '[Plugin](../docs/reference/sdk/plugin.md) on, explain how the parts work together. `@setpoint/controller-runtime/api` is',
  'the folder `api` alone.',
  '',
]
for (const { title, declarations } of entries) {
  parts.push(`## ${title}`, '')
  for (const folder of new Set(declarations.map(each => each.folder))) {
    const members = declarations.filter(each => each.folder === folder)
    parts.push(`**${folder}:** ${members.map(({ name }) => `[${name}](#${anchorOf(name)})`).join(', ')}`, '')
  }
}
parts.push('## The declarations', '')
const shown = new Set()
for (const { name, doc, code } of all) {
  if (shown.has(name)) continue
  shown.add(name)
  parts.push(`### ${name}`, '', ...(doc === '' ? [] : [doc, '']), '```ts', code, '```', '')
}
const text = `${parts.join('\n').trimEnd()}\n`

if (without.length > 0) {
  console.error(`these names have no docstring: ${without.join(', ')}`)
  process.exitCode = 1
}
if (!process.argv.includes('--check')) {
  mkdirSync(new URL('.', page), { recursive: true })
  writeFileSync(page, text)
}
