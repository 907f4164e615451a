import { readFile } from 'node:fs/promises'
import { kubernetesKeywords } from '@setpoint/controller-runtime/api'
import { expect, test } from 'vitest'
import { authorizationFunctions } from '../apiserver/src/model/cel/authorization-functions.ts'
import { functions, methods } from '../apiserver/src/model/cel/functions.ts'
import { macroNames } from '../apiserver/src/model/cel/macros.ts'
import { enforcedKeywords } from '../apiserver/src/model/schema-dialect.ts'

/** Returns the names in one column of the first table below a heading of a page of the reference. */
async function namesIn(page: string, heading: string, column: number): Promise<string[]> {
  const text = await readFile(new URL(`../docs/reference/${page}.md`, import.meta.url), 'utf8')
  const section = text.slice(text.indexOf(`\n${heading}\n`))
  const table = /(?:^\|.*\n)+/m.exec(section)?.[0] ?? ''
  const cells = table
    .trim()
    .split('\n')
    .slice(2)
    .map(row => row.split(/(?<!\\)\|/)[column + 1] ?? '')
  return cells.flatMap(cell => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name))
}

const distinct = (names: Iterable<string>) => [...new Set(names)].sort()

test('the reference lists exactly the keywords of schemas that are enforced', async () => {
  expect(distinct(await namesIn('schemas', '## Keywords', 0))).toEqual(distinct(enforcedKeywords))
  expect(distinct(await namesIn('schemas', "## Kubernetes' keywords", 0))).toEqual(
    distinct(kubernetesKeywords),
  )
})

test('the reference lists exactly the functions of rules, which have no authorizer', async () => {
  const ofValues = Object.keys(methods).filter(name => !Object.hasOwn(authorizationFunctions, name))
  const names = [...Object.keys(functions), ...ofValues, ...macroNames, 'has']
  expect(distinct(await namesIn('rules', '### Functions', 1))).toEqual(distinct(names))
})
