import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { pluginModule, writePlugin } from './support/plugins.ts'
import { startServer } from './support/server.ts'
import { imports } from './support/tools.ts'

const pathOf = (name: string) => fileURLToPath(new URL(`../apiserver/src/${name}`, import.meta.url))

test.each(['cli/server.ts', 'cli/controllers.ts', 'http/index.ts', 'model/schema-compiler.ts'])(
  '`--help` and `token` do not load %s, only `serve` does',
  module => {
    expect(imports(pathOf('cli/main.ts'), pathOf('cli/flags.ts'))).toBe(true)
    expect(imports(pathOf('cli/main.ts'), pathOf(module))).toBe(false)
  },
)

// Reports every registration of module hooks on standard error.
const reportHooks = `
import module, { syncBuiltinESMExports } from 'node:module'
for (const name of ['register', 'registerHooks']) {
  const original = module[name]
  if (original !== undefined) module[name] = (...args) => {
    process.stderr.write('module hooks registered\\n')
    return original(...args)
  }
}
syncBuiltinESMExports()`
const env = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(reportHooks)}` }

test('module hooks, which start a thread in Node 20, are for plugins that do not find the SDK', async () => {
  const without = await startServer({ env })
  await without.stop()
  expect(without.stderr()).not.toContain('module hooks registered')

  const elsewhere = await writePlugin({ 'index.js': pluginModule('elsewhere') })
  const withHooks = await startServer({ env, plugins: [elsewhere] })
  await withHooks.stop()
  expect(withHooks.stderr()).toContain('module hooks registered')
})
