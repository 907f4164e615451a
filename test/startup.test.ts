import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { Api, refusalOf } from './support/api.ts'
import { imports } from './support/imports.ts'
import { pluginModule, writePlugin } from './support/plugins.ts'
import { freePort } from './support/ports.ts'
import { runProgram, spawnProgram, startServer } from './support/server.ts'

const pathOf = (name: string) => fileURLToPath(new URL(`../apiserver/src/${name}`, import.meta.url))

test.each(['cli/server.ts', 'cli/controllers.ts', 'http/index.ts', 'model/schema-compiler.ts'])(
  '`--help` and `token` do not load %s, only `serve` does',
  module => {
    expect(imports(pathOf('cli/main.ts'), pathOf('cli/flags.ts'))).toBe(true)
    expect(imports(pathOf('cli/main.ts'), pathOf(module))).toBe(false)
  },
)

test('a server loads ciphers and the client of key services only if a store is encrypted', () => {
  const room = 'encryption/index.ts'
  expect(imports(pathOf('cli/reencrypt.ts'), pathOf(room))).toBe(true)
  expect(imports(pathOf('cli/server.ts'), pathOf(room))).toBe(false)
})

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

test('a server whose store was never reached says so, and where the API is', async () => {
  const [address, nothing] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
  const server = spawnProgram(['serve', '--listen', address, '--etcd-endpoints', nothing])
  try {
    const api = new Api(`http://${address}`)
    await expect
      .poll(async () => refusalOf(await api.get('/api/v1/namespaces'), 503).message)
      .toBe('namespaces is not available: the store cannot be reached')
    expect(refusalOf(await api.get('/'), 404).message).toContain('see /apis, or /docs')
  } finally {
    await server.kill('SIGTERM')
  }
})

test('a server whose port is in use says so in one line', async () => {
  const first = await startServer()
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-data-'))
  try {
    const listen = `127.0.0.1:${first.port}`
    const { code, stderr } = await runProgram(['serve', '--listen', listen, '--data-dir', dataDir])
    expect(code).toBe(1)
    expect(stderr).toContain(`setpoint: cannot listen on ${listen}: the port is in use`)
    expect(stderr).not.toContain('EADDRINUSE')
    expect(JSON.parse(stderr.trimEnd().split('\n').at(-1) ?? '')).toMatchObject({
      level: 'error',
      reason: 'failed to start',
      problem: expect.stringContaining('the port is in use'),
      code: 1,
      msg: 'exiting',
    })
  } finally {
    await first.stop()
    await rm(dataDir, { recursive: true })
  }
})
