import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { findHelm, findKubectl, olderVersion } from '../scripts/kubernetes-tools.mjs'
import { ClientWorld } from './support/client-world.ts'
import { devicesOf } from './support/kinds.ts'
import { Kubectl } from './support/kubectl.ts'
import { need } from './support/tools.ts'

/** kubectl 1.26 and Helm 3.11, which check and explain by `/openapi/v2` only. */
await need(() => findKubectl(olderVersion))

let world: ClientWorld
let kubectl: Kubectl

beforeAll(async () => {
  world = await ClientWorld.start({ store: 'embedded', secure: false }, ['items-plugin', 'described-plugin'])
  kubectl = await Kubectl.configured(olderVersion, world.kubeconfig)
})
afterAll(async () => {
  await kubectl?.close()
  await world?.end()
})

/** A custom object, and one whose lists merge by key. */
const manifest = (name: string, size: number) => `
apiVersion: items.example.com/v1
kind: Device
metadata: {name: ${name}}
spec: {size: ${size}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: ${name}}
secrets: [{name: size-${size}}]
`

it('creates, applies, compares and replaces', async () => {
  const run = (command: string, name: string, size: number) =>
    kubectl.run([command, '-f', '-'], { input: manifest(name, size) })
  const done = (name: string, verb: string) => ({
    ...{ code: 0, stderr: '' },
    stdout: `device.items.example.com/${name} ${verb}\nserviceaccount/${name} ${verb}\n`,
  })
  expect(await run('create', 'created', 1)).toEqual(done('created', 'created'))
  expect(await run('replace', 'created', 2)).toEqual(done('created', 'replaced'))
  expect(await run('apply', 'applied', 1)).toEqual(done('applied', 'created'))
  expect(await run('apply', 'applied', 1)).toEqual(done('applied', 'unchanged'))
  const difference = await run('diff', 'applied', 2)
  expect([difference.code, difference.stderr]).toEqual([1, ''])
  expect(difference.stdout).toMatch(/^- {2}size: 1\n\+ {2}size: 2$/m)
  expect(difference.stdout).toMatch(/^-- name: size-1\n\+- name: size-2$/m)
  expect(await run('apply', 'applied', 2)).toEqual(done('applied', 'configured'))
  expect((await devicesOf(world.api).read('applied')).spec).toEqual({ size: 2 })
})

it('refuses an unknown field', async () => {
  const input = manifest('refused', 1).replace('size: 1}', 'size: 1, colour: red}')
  const { code, stderr } = await kubectl.run(['create', '-f', '-'], { input })
  expect([code, stderr]).toEqual([1, expect.stringContaining('spec.colour')])
})

it('explains a kind with all of its fields', async () => {
  const text = await kubectl.output(['explain', 'boats', '--recursive'])
  expect(text).toMatch(/^KIND: +Boat\nVERSION: +described\.example\.com\/v1\n/)
  expect(text).toMatch(/^ {6}ownerReferences\t<\[\]Object>$/m)
  expect(text).toMatch(/^ {6}cargo\t<map\[string\]integer>$/m)
  expect(text).toMatch(/^ {9}id\t<string>$/m)
  expect(await kubectl.output(['explain', 'boats.spec.name'])).toContain('What the boat is called.')
})

it('Helm installs and upgrades a chart with kinds of Kubernetes and of a plugin', async () => {
  const chart = join(kubectl.home, 'chart')
  await mkdir(join(chart, 'templates'), { recursive: true })
  await writeFile(join(chart, 'Chart.yaml'), 'apiVersion: v2\nname: small\nversion: 0.1.0\n')
  await writeFile(
    join(chart, 'templates/all.yaml'),
    `${manifest('installed', 1).replace(/size: 1/, 'size: {{ .Values.size }}')}---
apiVersion: v1
kind: Secret
metadata: {name: installed}
stringData: {key: value}
`,
  )
  const helm = await findHelm(olderVersion)
  for (const [command, size] of [
    ['install', 1],
    ['upgrade', 2],
  ] as const) {
    const args = [command, 'release', chart, '--set', `size=${size}`]
    const { code, stdout, stderr } = await world.run(helm, args, { HOME: kubectl.home }).ended
    expect([code, stderr, stdout]).toEqual([0, '', expect.stringContaining('STATUS: deployed')])
    expect((await devicesOf(world.api).read('installed')).spec).toEqual({ size })
  }
})
