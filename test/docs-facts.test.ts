import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { formatStart, linesOfServer } from '../apiserver/src/cli/start-lines.ts'
import {
  defaultClusterRoleBindings,
  defaultClusterRoles,
} from '../apiserver/src/kubernetes/rbac/default-roles.ts'
import { drawingOf } from '../docs/.vitepress/diagrams.ts'
import { blocksOf } from './support/doc-blocks.ts'
import { fieldsOf } from './support/json.ts'

/** Facts that the documentation repeats: they must be those of the code. */

const root = fileURLToPath(new URL('..', import.meta.url))
const pageOf = (name: string) => readFile(join(root, 'docs', `${name}.md`), 'utf8')

/** Returns the cells of every row of the tables below a heading, up to the next heading of its level. */
function rowsBelow(page: string, heading: string): string[][] {
  const [, after = ''] = page.split(`\n${heading}\n`)
  const [section = ''] = after.split(/\n##? /)
  return section
    .split('\n')
    .filter(line => line.startsWith('| ') && !line.startsWith('| -'))
    .map(line =>
      line
        .split(/(?<!\\)\|/)
        .slice(1, -1)
        .map(cell => cell.trim()),
    )
}

const codeIn = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text)

/** Returns the text of all sources of the server and the SDK, without tests. */
async function sources(): Promise<string> {
  const texts = ['apiserver/src', 'controller-runtime/src'].map(async folder => {
    const files = (await readdir(join(root, folder), { recursive: true })).filter(
      file => file.endsWith('.ts') && !file.endsWith('.test.ts'),
    )
    return Promise.all(files.map(file => readFile(join(root, folder, file), 'utf8')))
  })
  return (await Promise.all(texts)).flat(2).join('\n')
}

test('the page of logs has the levels, and messages that the program logs at the level it says', async () => {
  const page = await pageOf('operations/logs')
  const levels = rowsBelow(page, '## Levels').flatMap(([name = '']) => codeIn(name))
  expect(levels.filter(name => name !== 'level')).toEqual(Object.keys(pino.levels.values))
  const text = await sources()
  const alerts = rowsBelow(page, '## Lines to alert on').slice(1)
  expect(alerts.length).toBeGreaterThan(10)
  for (const [message = '', level = ''] of alerts) {
    const [wanted = ''] = codeIn(message)
    const before = text.slice(0, text.indexOf(`'${wanted}'`))
    expect(before.length, wanted).toBeGreaterThan(0)
    expect(/.*\.(debug|info|warn|error|fatal)\(/s.exec(before.slice(-1500))?.[1], wanted).toBe(
      codeIn(level)[0],
    )
  }
})

test('the page of roles has every default role, and the groups to which it is bound', async () => {
  const rows = rowsBelow(await pageOf('reference/roles'), '## Built in')
  const told = new Map(rows.flatMap(([names = '', may = '']) => codeIn(names).map(name => [name, may])))
  // Parts of the aggregated roles, which the page describes.
  const names = defaultClusterRoles.map(({ name }) => name).filter(name => !name.includes('aggregate-to-'))
  expect(names.filter(name => !told.has(name))).toEqual([])
  for (const { name, content } of defaultClusterRoleBindings) {
    const { subjects } = fieldsOf(content)
    for (const subject of Array.isArray(subjects) ? subjects.map(fieldsOf) : [])
      if (subject.kind === 'Group') expect(told.get(name), name).toContain(`\`${subject.name}\``)
  }
})

test('the table of rooms has every folder of the server', async () => {
  const rooms = rowsBelow(await pageOf('architecture'), '## Rooms').flatMap(([name = '']) => codeIn(name))
  const entries = await readdir(join(root, 'apiserver/src'), { withFileTypes: true })
  const folders = entries.filter(entry => entry.isDirectory()).map(({ name }) => name)
  expect(rooms.sort()).toEqual(folders.sort())
})

test('every diagram can be drawn', async () => {
  const docs = await readdir(join(root, 'docs'), { recursive: true })
  const files = ['README.md', ...docs.filter(file => file.endsWith('.md')).map(file => `docs/${file}`)]
  const blocks = await Promise.all(
    files.map(async file => blocksOf(file, await readFile(join(root, file), 'utf8'))),
  )
  const diagrams = blocks.flat().filter(({ language }) => language === 'mermaid')
  expect(diagrams.length).toBeGreaterThan(5)
  for (const { page, text } of diagrams) expect(drawingOf(text), page).toContain('<svg')
})

test('the pages that start a server show the lines that a terminal shows', async () => {
  const url = 'http://127.0.0.1:8090'
  const store = { kind: 'embedded', dataDir: '.setpoint', compact: false } as const
  const start = linesOfServer(url, { store, authentication: undefined }, `${url}/console`)
  const shown = formatStart(start, { isTerminal: true, colour: false })
  for (const page of ['../README', 'guides/getting-started'])
    expect(await pageOf(page), page).toContain(shown.trimEnd())
})
