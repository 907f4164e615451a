import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@setpoint/controller-runtime'
import { orphanRecordModel } from '@setpoint/controller-runtime/internal'
import { Ajv } from 'ajv'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { arrayOf, fieldsOf } from '../../../test/support/json.ts'
import { freePorts } from '../../../test/support/ports.ts'
import { builtInKinds, rbacKinds } from '../kubernetes/index.ts'
import { ServedModel } from '../model/index.ts'
import { pluginModel } from '../plugins/index.ts'
import { RbacAuthorizer } from '../security/index.ts'
import { parseCommandLine } from './flags.ts'
import { startServer } from './server.ts'

const rbac = '/apis/rbac.authorization.k8s.io/v1'

let dataDir: string

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'setpoint-test-'))
})

afterEach(async () => {
  vi.restoreAllMocks()
  await rm(dataDir, { recursive: true, force: true })
})

async function startEmpty(flags: readonly string[] = ['--listen', '127.0.0.1:0'], stopAsked?: AbortSignal) {
  const commandLine = parseCommandLine(['serve', '--data-dir', dataDir, ...flags], {})
  if (commandLine.command !== 'serve' || commandLine.options.role === 'controllers')
    throw new Error('expected the options of a server')
  const losses = () => ({ bufferFull: 0, repeated: 0 })
  const options = { ...commandLine.options, plugins: [] }
  return startServer({ options, settings: {} }, silentLogger, losses, stopAsked)
}

it('compiles the schema of a built-in kind when an object is first written', async () => {
  const compile = vi.spyOn(Ajv.prototype, 'compile')
  const first = await startEmpty()
  await first.stop()
  const second = await startEmpty()
  expect(compile).not.toHaveBeenCalled()

  const url = new URL('apis/plugins.setpoint.dev/v1/plugins', `${second.url}/`)
  const plugin = { apiVersion: 'plugins.setpoint.dev/v1', kind: 'Plugin', metadata: { name: 'p' }, spec: {} }
  for (const name of ['p', 'q']) {
    const body = JSON.stringify({ ...plugin, metadata: { name } })
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    })
    expect(response.status).toBe(201)
  }
  expect(compile).toHaveBeenCalledTimes(1)
  await second.stop()
})

it('creates valid objects at its first start, although it does not check them', async () => {
  const server = await startEmpty()
  const read = async (path: string, init?: RequestInit) => {
    const response = await fetch(`${server.url}${path}`, init)
    const body: unknown = await response.json()
    return { status: response.status, body }
  }
  const collections = [
    '/api/v1/namespaces',
    '/api/v1/namespaces/setpoint-system/serviceaccounts',
    `${rbac}/clusterroles`,
    `${rbac}/clusterrolebindings`,
    `${rbac}/namespaces/setpoint-system/roles`,
    `${rbac}/namespaces/setpoint-system/rolebindings`,
  ]
  for (const collection of collections) {
    const { items } = fieldsOf((await read(collection)).body)
    expect(arrayOf(items).length, collection).toBeGreaterThan(0)
    for (const item of arrayOf(items).map(fieldsOf)) {
      const { name, labels, annotations } = fieldsOf(item.metadata)
      const copy = { ...item, metadata: { name: 'copy', labels, annotations } }
      const { status, body } = await read(`${collection}?dryRun=All&fieldValidation=Strict`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(copy),
      })
      expect({ status, message: status === 201 ? undefined : body }, `${collection}/${name}`).toEqual({
        status: 201,
      })
    }
  }
  await server.stop()
})

it('declares valid schemas for its own kinds, because the start does not check them', () => {
  const own = [pluginModel, orphanRecordModel].map(declare => ({
    model: declare('setpoint.dev'),
    rules: undefined,
  }))
  const roles = rbacKinds(new RbacAuthorizer({ isSensitive: () => false })).all
  for (const { model, rules } of [...builtInKinds().all, ...roles, ...own]) {
    expect(() => new ServedModel(model, undefined, rules && { rules }), model.kind).not.toThrow()
    // `loadRules` is called for plugins only.
    expect(JSON.stringify(model.schema), model.kind).not.toContain('x-kubernetes-validations')
  }
})

it('stops waiting for the store and for plugins once it is asked to stop', async () => {
  const [port, storePort] = await freePorts(2)
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  try {
    const asked = new AbortController()
    const flags = ['--listen', `127.0.0.1:${port}`, '--etcd-endpoints', `127.0.0.1:${storePort}`]
    const starting = startEmpty(flags, asked.signal)
    await expect.poll(() => fetch(`http://127.0.0.1:${port}/livez`).then(({ status }) => status)).toBe(200)
    asked.abort()
    // The time for plugins to start never passes.
    const server = await starting
    vi.useRealTimers()
    await server.stop({ force: true })
  } finally {
    vi.useRealTimers()
  }
})
