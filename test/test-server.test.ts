import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startTestServer } from '@setpoint/controller-runtime/testing'
import { expect, test } from 'vitest'
import { startEtcd } from './support/etcd.ts'
import { Lamp } from './support/sdk-world.ts'

test('test servers with the same etcd and prefix share a store; others do not', async () => {
  const warnings: string[] = []
  const warned = ({ message }: Error) => void warnings.push(message)
  process.on('warning', warned)
  const etcd = await startEtcd()
  try {
    const start = (prefix: string) =>
      startTestServer({ models: [Lamp], etcd: { endpoints: [etcd.endpoint], prefix } })
    await using one = await start('/tests/one')
    await using two = await start('/tests/one')
    await using other = await start('/tests/other')
    const watch = await two.client.watch(Lamp)
    const lamp = await one.client.create(Lamp, { metadata: { name: 'a' }, spec: { watts: 1 } })
    expect(await two.client.get(Lamp, 'a')).toEqual(lamp)
    expect((await other.client.list(Lamp)).items).toEqual([])
    for await (const event of watch) {
      if (event.type !== 'ADDED') continue
      expect(event.object).toEqual(lamp)
      break
    }
    await one.close()
    expect((await two.client.list(Lamp)).items).toEqual([lamp])
    // Such as MaxListenersExceededWarning.
    expect(warnings).toEqual([])
  } finally {
    process.off('warning', warned)
    await etcd.stop()
  }
})

test('without the server’s package the error says what to install; with the package it starts', async () => {
  const root = fileURLToPath(new URL('..', import.meta.url))
  const folder = await mkdtemp(join(tmpdir(), 'project-'))
  try {
    // The SDK, installed apart from the server.
    const sdk = join(folder, 'elsewhere', 'sdk')
    await cp(join(root, 'controller-runtime', 'bundle'), join(sdk, 'bundle'), { recursive: true })
    await cp(join(root, 'controller-runtime', 'package.json'), join(sdk, 'package.json'))
    const { dependencies }: { dependencies: object } = JSON.parse(
      await readFile(join(sdk, 'package.json'), 'utf8'),
    )
    for (const name of Object.keys(dependencies))
      await link(join(root, 'node_modules', name), join(sdk, 'node_modules', name))
    await link(sdk, join(folder, 'node_modules', '@setpoint', 'controller-runtime'))
    const program = `
      import { startTestServer } from '@setpoint/controller-runtime/testing'
      startTestServer().then(server => server.close()).then(() => 'started', String).then(console.log)`
    const run = async () => {
      const flags = ['--input-type=module', '--eval', program]
      return (await promisify(execFile)(process.execPath, flags, { cwd: folder })).stdout
    }
    expect(await run()).toBe(
      'TestServerMissingError: startTestServer needs the server: npm install --save-dev @setpoint/apiserver\n',
    )
    await link(join(root, 'apiserver'), join(folder, 'node_modules', '@setpoint', 'apiserver'))
    expect(await run()).toBe('started\n')
  } finally {
    await rm(folder, { recursive: true })
  }
})

async function link(target: string, path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await symlink(target, path)
}
