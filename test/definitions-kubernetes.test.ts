import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { findDefinitionChecker } from '../scripts/clients.mjs'
import { runProgram } from './support/server.ts'
import { need } from './support/tools.ts'

await need(findDefinitionChecker)

const checker = await findDefinitionChecker()
const root = join(import.meta.dirname, '..')

describe('the definitions of', () => {
  it.each([
    ['plugins/certificates', 4],
    ['plugins/uptime', 1],
    ['plugins/webhooks', 2],
    ['test/fixtures/described-plugin', 2],
    ['test/fixtures/items-plugin', 3],
    ['test/fixtures/places-plugin', 3],
  ])('%s pass the validation of kube-apiserver', async (plugin, count) => {
    const { stdout } = await runProgram(['definitions', join(root, plugin)])
    const checked = spawnSync(checker, { input: stdout, encoding: 'utf8' })
    expect(checked.stdout).toBe(`${count} definitions\n`)
  })
})
