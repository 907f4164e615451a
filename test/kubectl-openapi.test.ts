import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ClientWorld, settings } from './support/client-world.ts'
import { devicesOf } from './support/kinds.ts'
import { Kubectl } from './support/kubectl.ts'

/** The commands of kubectl that read the OpenAPI documents, with their defaults. */

const device = (name: string, size: number, more = '') => `
apiVersion: items.example.com/v1
kind: Device
metadata:
  name: ${name}
spec:
  size: ${size}
${more}`

describe.each(settings)('kubectl $kubectl on $title', setting => {
  let world: ClientWorld
  let kubectl: Kubectl
  const specOf = async (name: string) => (await devicesOf(world.api).read(name)).spec

  beforeAll(async () => {
    world = await ClientWorld.start(setting, ['items-plugin', 'described-plugin'])
    kubectl = await Kubectl.configured(setting.kubectl, world.kubeconfig)
  })
  afterAll(async () => {
    await kubectl?.close()
    await world?.end()
  })

  it('is of this version', async () => {
    expect(await kubectl.output(['version', '--client'])).toContain(`Client Version: v${setting.kubectl}.`)
  })

  it('explains a kind with all of its fields', async () => {
    const text = await kubectl.output(['explain', 'boats', '--recursive'])
    expect(text).toMatch(/^GROUP:\s+described\.example\.com\nKIND:\s+Boat\nVERSION:\s+v1\n/)
    expect(text).toMatch(/^ {2}metadata\t<ObjectMeta> -required-$/m)
    expect(text).toMatch(/^ {4}version\t<string>$/m)
    expect(text).toMatch(/^ {4}ownerReferences\t<\[\]OwnerReference>$/m)
    expect(text).toMatch(/^ {2}spec\t<Object> -required-$/m)
    expect(text).toMatch(/^ {4}name\t<string> -required-$/m)
    expect(text).toMatch(/^ {4}cargo\t<map\[string\]integer>$/m)
    expect(text).toMatch(/^ {6}id\t<string> -required-$/m)
    expect(text).toMatch(/^ {4}afloat\t<boolean>$/m)
  })

  it('explains one field, in any version of the kind', async () => {
    const hub = await kubectl.output(['explain', 'boats.spec.name'])
    expect(hub).toMatch(/^FIELD: name <string>$/m)
    expect(hub).toContain('What the boat is called.')
    const older = await kubectl.output([
      ...['explain', 'boats.spec', '--api-version', 'described.example.com/v1beta1'],
    ])
    expect(older).toMatch(/^ {2}title\t<string>$/m)
    const unknown = await kubectl.run(['explain', 'boats.spec.colour'])
    expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining('"colour" does not exist')])
  })

  it('creates, and refuses an unknown field', async () => {
    const name = 'created'
    const created = await kubectl.output(['create', '-f', '-'], { input: device(name, 1) })
    expect(created).toBe(`device.items.example.com/${name} created\n`)
    const refused = await kubectl.run(['create', '-f', '-'], {
      input: device(`${name}-2`, 1, '  colour: red'),
    })
    expect(refused.code).toBe(1)
    expect(refused.stderr).toContain('spec.colour')
    expect(refused.stderr).not.toContain('openapi')
  })

  it('says that a kind is unknown', async () => {
    const input = 'apiVersion: example.com/v1\nkind: Nope\nmetadata: {name: a}\n'
    const { code, stderr } = await kubectl.run(['apply', '-f', '-'], { input })
    expect(code).toBe(1)
    expect(stderr).toContain(
      'no matches for kind "Nope" in version "example.com/v1"\nensure CRDs are installed first',
    )
  })

  it('applies: creates, changes, takes away, and sees that nothing changed', async () => {
    const name = 'applied'
    const apply = (text: string) => kubectl.output(['apply', '-f', '-'], { input: text })
    const prefix = `device.items.example.com/${name}`
    const labelled = device(name, 1).replace('spec:', '  labels:\n    example.com/team: a\nspec:')
    expect(await apply(labelled)).toBe(`${prefix} created\n`)
    expect(await apply(device(name, 2))).toBe(`${prefix} configured\n`)
    const { spec, metadata } = await devicesOf(world.api).read(name)
    expect([spec, metadata.labels]).toEqual([{ size: 2 }, {}])
    expect(await apply(device(name, 2))).toBe(`${prefix} unchanged\n`)
  })

  it('replaces', async () => {
    const name = 'replaced'
    await devicesOf(world.api).create(name, { size: 1 })
    const replaced = await kubectl.output(['replace', '-f', '-'], { input: device(name, 3) })
    expect(replaced).toBe(`device.items.example.com/${name} replaced\n`)
    expect(await specOf(name)).toEqual({ size: 3 })
  })

  it('edits', async () => {
    const name = 'edited'
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-editor-'))
    try {
      await devicesOf(world.api).create(name, { size: 1 })
      const editor = join(folder, 'editor.sh')
      await writeFile(editor, '#!/bin/sh\nsed -i "s/size: 1/size: 4/" "$1"\n')
      await chmod(editor, 0o755)
      const edited = await kubectl.output(['edit', 'devices', name], { env: { KUBE_EDITOR: editor } })
      expect(edited).toBe(`device.items.example.com/${name} edited\n`)
      expect(await specOf(name)).toEqual({ size: 4 })
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  it('shows what an apply would change', async () => {
    const name = 'compared'
    const input = device(name, 1)
    await kubectl.output(['apply', '-f', '-'], { input })
    const same = await kubectl.run(['diff', '-f', '-'], { input })
    expect([same.code, same.stdout, same.stderr]).toEqual([0, '', ''])
    const other = await kubectl.run(['diff', '-f', '-'], { input: device(name, 5) })
    expect([other.code, other.stderr]).toEqual([1, ''])
    expect(other.stdout).toMatch(/^- {2}size: 1\n\+ {2}size: 5$/m)
    expect(await specOf(name)).toEqual({ size: 1 })
  })

  it('applies and compares on the server', async () => {
    const name = 'served'
    const apply = (text: string) => kubectl.output(['apply', '--server-side', '-f', '-'], { input: text })
    const applied = `device.items.example.com/${name} serverside-applied\n`
    expect(await apply(device(name, 1))).toBe(applied)
    const other = await kubectl.run(['diff', '--server-side', '-f', '-'], { input: device(name, 6) })
    expect([other.code, other.stderr]).toEqual([1, ''])
    expect(other.stdout).toMatch(/^- {2}size: 1\n\+ {2}size: 6$/m)
    expect(await apply(device(name, 6))).toBe(applied)
    expect(await specOf(name)).toEqual({ size: 6 })
  })
})
