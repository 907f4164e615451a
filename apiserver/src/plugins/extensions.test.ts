import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ApiError, type ApiObject, objectKey } from '@setpoint/controller-runtime/api'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { applyMergePatch } from '../registry/patch.ts'
import { applyExtensions, type ExtensionResult, extensionDefaults } from './extensions.ts'
import type { KindAndContent, NewExtension, ResourceWriter } from './resource-writer.ts'
import { shippedDefaults } from './shipped-document.ts'

/** Stores objects in memory with versions, and counts writes. */
class MemoryWriter implements ResourceWriter {
  readonly objects = new Map<string, ApiObject>()
  writes = 0
  /** Called before each write, so that another writer can come first. */
  beforeWrite: (name: string) => void = () => {}

  /** Its objects of the kind Seat are in namespaces. */
  isNamespaced(apiVersion: string, kind: string): boolean {
    this.#checkKind(apiVersion, kind)
    return kind === 'Seat'
  }

  async get(apiVersion: string, kind: string, name: string): Promise<ApiObject | undefined> {
    this.#checkKind(apiVersion, kind)
    return structuredClone(this.objects.get(name))
  }

  async create(object: NewExtension): Promise<ApiObject> {
    this.#checkKind(object.apiVersion, object.kind)
    const name = objectKey(object.metadata)
    this.beforeWrite(name)
    if (this.objects.has(name)) throw new ApiError('AlreadyExists', `gadgets ${name} already exists`)
    return this.#store(name, object)
  }

  async patch(apiVersion: string, kind: string, name: string, mergePatch: object): Promise<ApiObject> {
    this.#checkKind(apiVersion, kind)
    this.beforeWrite(name)
    const live = this.objects.get(name)
    if (live === undefined) throw new ApiError('NotFound', `gadgets ${name} not found`)
    const asked: unknown = Reflect.get(Object(Reflect.get(mergePatch, 'metadata')), 'version')
    if (asked !== live.metadata.version) throw new ApiError('Conflict', `gadgets ${name} was changed`)
    return this.#store(name, applyMergePatch(live, mergePatch))
  }

  /** Fields that start with x are unknown. */
  unknownFields({ apiVersion, kind, spec }: KindAndContent): readonly string[] {
    this.#checkKind(apiVersion, kind)
    return Object.keys(Object(spec)).flatMap(field => (field.startsWith('x') ? [`spec.${field}`] : []))
  }

  /** A user's write: not counted, and always with a new version. */
  edit(name: string, change: object): void {
    this.#put(name, applyMergePatch(this.objects.get(name), change))
  }

  #store(name: string, object: unknown): ApiObject {
    this.writes++
    return this.#put(name, object)
  }

  #put(name: string, object: unknown): ApiObject {
    const version = String(++this.#version)
    const stored = applyMergePatch(object, { metadata: { version } }) as ApiObject
    this.objects.set(name, stored)
    return stored
  }

  #version = 0

  #checkKind(apiVersion: string, kind: string): void {
    if (kind === 'Starting') throw new ApiError('ServiceUnavailable', 'starting')
    if (apiVersion !== 'demo.example.com/v1' || !['Gadget', 'Seat'].includes(kind)) {
      throw new ApiError('NotFound', `no kind ${kind} in ${apiVersion}`)
    }
  }
}

let dir: string
let resourcesDir: string
let writer: MemoryWriter

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'setpoint-extensions-'))
  resourcesDir = join(dir, 'resources')
  await mkdir(resourcesDir)
  writer = new MemoryWriter()
})

afterEach(() => rm(dir, { recursive: true }))

/** Writes files below `extensions/`. */
async function ship(files: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    const path = join(resourcesDir, 'extensions', name)
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, text)
  }
}

async function apply(
  version = '1.0.0',
  plugin = 'demo',
  signal?: AbortSignal,
): Promise<Omit<ExtensionResult, 'left'>> {
  const { left, ...result } = await applyExtensions({
    plugin,
    version,
    dir,
    resourcesDir,
    reservedDomain: 'setpoint.dev',
    writer,
    signal,
  })
  expect(left).toHaveLength(result.problems.filter(({ transient }) => transient).length)
  return result
}

function gadget(name: string, spec: string, metadata = ''): string {
  return `apiVersion: demo.example.com/v1\nkind: Gadget\nmetadata: {name: ${name}${metadata}}\nspec: ${spec}\n`
}

const clean = { unchanged: 0, problems: [] }

describe('an object that a plugin ships', () => {
  it('of a namespaced kind needs its namespace, and may have the name of one in another', async () => {
    const seat = (place: string) =>
      `apiVersion: demo.example.com/v1\nkind: Seat\nmetadata: {name: one${place}}\nspec: {n: 1}\n`
    await ship({
      'a.yaml': [seat(', namespace: a'), seat(', namespace: b'), seat(''), seat(', namespace: a')].join(
        '---\n',
      ),
    })
    const result = await apply()
    expect(result.applied).toBe(2)
    expect(result.problems).toMatchObject([
      {
        line: 10,
        message: 'metadata.namespace must be a string: Seat is a namespaced kind',
        transient: false,
      },
      { line: 15, message: expect.stringContaining('Seat one is already declared at') },
    ])
    expect([...writer.objects.keys()]).toEqual(['a/one', 'b/one'])
    expect(await apply()).toMatchObject({ applied: 0, unchanged: 2 })
    writer.edit('b/one', { spec: { n: 2 } })
    await ship({ 'a.yaml': seat(', namespace: b').replace('n: 1', 'n: 1, m: 1') })
    await apply()
    expect(writer.objects.get('b/one')?.spec).toEqual({ n: 2, m: 1 })
  })

  it("is created if it is missing, with the file's content and the plugin's name", async () => {
    await ship({
      'a.yaml': gadget('one', '{n: 1}', ', labels: {demo.example.com/a: b}, annotations: {x: y}'),
    })
    expect(await apply()).toEqual({ ...clean, applied: 1 })
    expect(writer.objects.get('one')).toEqual({
      apiVersion: 'demo.example.com/v1',
      kind: 'Gadget',
      metadata: {
        name: 'one',
        version: '1',
        labels: { 'demo.example.com/a': 'b' },
        annotations: {
          x: 'y',
          'plugins.setpoint.dev/plugin': 'demo',
          'plugins.setpoint.dev/version': '1.0.0',
          'plugins.setpoint.dev/last-applied': expect.any(String),
        },
      },
      spec: { n: 1 },
    })
  })

  it("is not written again if nothing has changed, even if the file's formatting has", async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 1, m: [1, 2]}') })
    await apply()
    await ship({ 'a.yaml': gadget('one', '\n  m:\n  - 1\n  - 2\n  n: 1 # the number') })
    expect(await apply()).toEqual({ applied: 0, unchanged: 1, problems: [] })
    expect(await apply('1.0.0+build.7')).toEqual({ applied: 0, unchanged: 1, problems: [] })
    expect(writer.writes).toBe(1)
  })

  it('is created again after a user deleted it', async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 1}') })
    await apply()
    writer.objects.delete('one')
    expect(await apply()).toEqual({ ...clean, applied: 1 })
    expect(writer.objects.get('one')?.spec).toEqual({ n: 1 })
  })

  it("keeps users' changes, and gets the fields that the file changed", async () => {
    await ship({
      'a.yaml': gadget('one', '{n: 1, email: a@b, tags: [x], deep: {a: 1, b: 1}}', ', labels: {d.e/a: "1"}'),
    })
    await apply()
    writer.edit('one', {
      metadata: { labels: { theirs: 'yes' }, annotations: { theirs: 'yes' } },
      spec: { email: 'c@d', tags: ['x', 'y'], deep: { c: 1 } },
    })
    expect(await apply()).toEqual({ applied: 0, unchanged: 1, problems: [] })

    await ship({
      'a.yaml': gadget('one', '{n: 2, email: a@b, tags: [x, z], deep: {a: 2}}', ', labels: {d.e/a: "2"}'),
    })
    expect(await apply('1.1.0')).toEqual({ ...clean, applied: 1 })
    expect(writer.objects.get('one')).toMatchObject({
      metadata: {
        labels: { 'd.e/a': '2', theirs: 'yes' },
        annotations: { theirs: 'yes', 'plugins.setpoint.dev/version': '1.1.0' },
      },
      spec: { n: 2, email: 'c@d', tags: ['x', 'z'] },
    })
    expect(writer.objects.get('one')?.spec).toHaveProperty('deep', { a: 2, c: 1 })
    expect(await apply('1.1.0')).toEqual({ applied: 0, unchanged: 1, problems: [] })
  })

  it('keeps everything if a user has damaged the record of the applied state', async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 1}') })
    await apply()
    writer.edit('one', {
      metadata: { annotations: { 'plugins.setpoint.dev/last-applied': '{' } },
      spec: { n: 5 },
    })
    expect(await apply()).toEqual({ ...clean, applied: 1 })
    expect(writer.objects.get('one')?.spec).toEqual({ n: 5 })
    await ship({ 'a.yaml': gadget('one', '{n: 2}') })
    await apply()
    expect(writer.objects.get('one')?.spec).toEqual({ n: 2 })
  })

  it('is left alone and reported if it did not come from this plugin', async () => {
    await ship({ 'a.yaml': `# ours\n---\n${gadget('one', '{n: 1}')}` })
    writer.edit('one', { metadata: { name: 'one' }, spec: { n: 7 } })
    const left = (why: string) => ({
      applied: 0,
      unchanged: 0,
      problems: [
        {
          file: 'resources/extensions/a.yaml',
          line: 2,
          message: `Gadget one exists and ${why}: it is left alone`,
          transient: true,
        },
      ],
    })
    expect(await apply()).toEqual(left('did not come from a plugin'))
    writer.objects.clear()
    await apply('1.0.0', 'other')
    expect(await apply()).toEqual(left('came from the plugin other'))
    expect(writer.objects.get('one')?.spec).toEqual({ n: 1 })
  })

  it('is left alone while it is being deleted, and can be retried', async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 1}') })
    await apply()
    writer.edit('one', { metadata: { deletionTimestamp: '2026-01-01T00:00:00.000Z' } })
    await ship({ 'a.yaml': gadget('one', '{n: 2}') })
    const { problems } = await apply()
    expect(problems).toMatchObject([{ message: expect.stringContaining('being deleted'), transient: true }])
    expect(writer.objects.get('one')?.spec).toEqual({ n: 1 })
  })
})

describe('the version of the plugin', () => {
  it('never goes back: an object that a newer one applied is left alone and reported', async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 2}') })
    await apply('2.0.0-rc.1')
    await ship({ 'a.yaml': gadget('one', '{n: 1}') })
    for (const older of ['1.9.9', '2.0.0-beta.30', '0.0.0']) {
      const { problems } = await apply(older)
      expect(problems).toMatchObject([
        { message: expect.stringContaining(`newer than ${older}`), transient: true },
      ])
    }
    expect(writer.objects.get('one')?.spec).toEqual({ n: 2 })
    await apply('2.0.0')
    expect(writer.objects.get('one')?.spec).toEqual({ n: 1 })
  })

  it('is recorded even if the newer file is the same, so that a version in between cannot apply', async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 1}') })
    await apply('1.0.0')
    expect(await apply('2.0.0')).toEqual({ ...clean, applied: 1 })
    await ship({ 'a.yaml': gadget('one', '{n: 15}') })
    await apply('1.5.0')
    expect(writer.objects.get('one')?.spec).toEqual({ n: 1 })
  })
})

describe('several servers at once', () => {
  it('accept that another server creates the object first', async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 1}'), 'b.yaml': gadget('two', '{n: 2}') })
    const results = await Promise.all([apply(), apply(), apply()])
    expect(results.flatMap(({ problems }) => problems)).toEqual([])
    expect(writer.writes).toBe(2)
  })

  it('read again and apply after a concurrent write', async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 1, m: 1}') })
    await apply()
    await ship({ 'a.yaml': gadget('one', '{n: 2, m: 1}') })
    let edits = 0
    writer.beforeWrite = () => {
      if (edits++ < 3) writer.edit('one', { spec: { m: edits * 10 } })
    }
    expect(await apply()).toEqual({ ...clean, applied: 1 })
    expect(writer.objects.get('one')?.spec).toEqual({ n: 2, m: 30 })
  })

  it('create the object after a concurrent deletion', async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 1}') })
    await apply()
    await ship({ 'a.yaml': gadget('one', '{n: 2}') })
    let deleted = false
    writer.beforeWrite = () => {
      if (!deleted) deleted = writer.objects.delete('one')
    }
    expect(await apply()).toEqual({ ...clean, applied: 1 })
    expect(writer.objects.get('one')?.spec).toEqual({ n: 2 })
  })

  it('do not revert a newer version that another server applies concurrently', async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 1}') })
    await apply('1.0.0')
    await ship({ 'a.yaml': gadget('one', '{n: 2}') })
    writer.beforeWrite = () => {
      writer.beforeWrite = () => {}
      writer.edit('one', {
        metadata: { annotations: { 'plugins.setpoint.dev/version': '3.0.0' } },
        spec: { n: 3 },
      })
    }
    expect((await apply('2.0.0')).problems).toHaveLength(1)
    expect(writer.objects.get('one')?.spec).toEqual({ n: 3 })
  })

  it('give up after a bounded number of attempts, for a retry later', async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 1}') })
    await apply()
    await ship({ 'a.yaml': gadget('one', '{n: 2}') })
    let edits = 0
    writer.beforeWrite = () => writer.edit('one', { spec: { edits: ++edits } })
    expect((await apply()).problems).toMatchObject([{ transient: true }])
    expect(edits).toBe(extensionDefaults.attempts)
  })

  it('report a unique value that another object holds after one attempt', async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 1}') })
    let attempts = 0
    writer.beforeWrite = () => {
      attempts++
      throw new ApiError('AlreadyExists', 'spec.email "a" is taken by gadget two')
    }
    expect((await apply()).problems).toMatchObject([
      { message: 'spec.email "a" is taken by gadget two', transient: true },
    ])
    expect(attempts).toBe(1)
  })
})

describe('a bad document', () => {
  it('does not stop the others, and is named with its file and line', async () => {
    await ship({
      'a.yaml': [
        gadget('one', '{n: 1}'),
        'a: [\n',
        gadget('two', '{n: 2}'),
        '- a list\n',
        gadget('three', '{n: 3}').replace('Gadget', 'Unknown'),
        gadget('four', '{n: 3}').replace('Gadget', 'Starting'),
      ].join('---\n'),
      'b.yml': `${gadget('five', '{n: 5}').replace('metadata:', 'meta:')}---\n${gadget('six', '{n: 6}')}`,
      'c.yaml': '',
      'd.yaml': '# nothing\n---\n---\n',
    })
    const { applied, problems } = await apply()
    expect(applied).toBe(3)
    expect([...writer.objects.keys()]).toEqual(['one', 'two', 'six'])
    expect(problems.map(({ file, line, transient }) => [file, line, transient]).sort()).toEqual([
      ['resources/extensions/a.yaml', 12, false],
      ['resources/extensions/a.yaml', 14, true],
      ['resources/extensions/a.yaml', 19, true],
      ['resources/extensions/a.yaml', 5, false],
      ['resources/extensions/b.yml', 1, false],
    ])
  })

  it.each([
    ['a label without prefix', ', labels: {app: x}', /"app" has no prefix/],
    ['a reserved label', ', labels: {setpoint.dev/x: x}', /"setpoint.dev\/x" is reserved/],
    [
      'a reserved label below',
      ', labels: {a.setpoint.dev/x: x, b: c}',
      /"a\.setpoint\.dev\/x".*; .*"b" has no prefix/,
    ],
    ['labels that are none', ', labels: x', /metadata.labels must be a mapping/],
    ['annotations that are none', ', annotations: [x]', /metadata.annotations must be a mapping/],
    ['an annotation of ours', ', annotations: {plugins.setpoint.dev/plugin: y}', /only be set by the server/],
  ])('is one with %s', async (_, metadata, message) => {
    await ship({ 'a.yaml': gadget('one', '{n: 1}', metadata) })
    expect((await apply()).problems).toEqual([
      {
        file: 'resources/extensions/a.yaml',
        line: 1,
        message: expect.stringMatching(message),
        transient: false,
      },
    ])
    expect(writer.writes).toBe(0)
  })

  it.each([
    ['text', /must be a mapping/],
    ['{apiVersion: a/b/v1, kind: Gadget, metadata: {name: a}}', /apiVersion must be/],
    ['{apiVersion: demo.example.com/v1, metadata: {name: a}}', /kind must be/],
    ['{apiVersion: demo.example.com/v1, kind: Gadget}', /metadata must be/],
    ['{apiVersion: demo.example.com/v1, kind: Gadget, metadata: {generateName: a}}', /metadata.name must be/],
    ['{apiVersion: demo.example.com/v1, kind: Gadget, metadata: {name: 5}}', /metadata.name must be/],
  ])('is %s', async (text, message) => {
    await ship({ 'a.yaml': text })
    expect((await apply()).problems).toMatchObject([{ message: expect.stringMatching(message) }])
  })

  it('is a second document for the same object', async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 1}'), 'b.yaml': gadget('one', '{n: 2}') })
    expect(await apply()).toMatchObject({
      applied: 1,
      problems: [
        {
          file: 'resources/extensions/b.yaml',
          message: 'Gadget one is already declared at resources/extensions/a.yaml:1',
        },
      ],
    })
    expect(await apply()).toMatchObject({ applied: 0, unchanged: 1 })
  })

  it('is too large to be recorded', async () => {
    await ship({ 'a.yaml': gadget('one', `{text: ${'x'.repeat(shippedDefaults.documentBytes)}}`) })
    expect((await apply()).problems).toMatchObject([{ message: expect.stringContaining('too large') }])
  })

  it('loses server-owned fields and empty maps', async () => {
    await ship({ 'a.yaml': gadget('one', '{n: 1}', ', uid: x, version: "9", deletionTimestamp: y, labels:') })
    expect(await apply()).toEqual({ ...clean, applied: 1 })
    expect(Object.keys(writer.objects.get('one')?.metadata ?? {}).sort()).toEqual([
      'annotations',
      'name',
      'version',
    ])
  })
})

describe('a field that the kind does not know', () => {
  it('is kept, and is a problem with file and line at every start', async () => {
    const text = `${gadget('one', '{n: 1}')}---\n${gadget('two', '{n: 2, xn: 3, xtra: {}}', ', label: {a: b}')}`
    await ship({ 'a.yaml': text })
    const problems = [
      {
        file: 'resources/extensions/a.yaml',
        line: 5,
        message:
          'Gadget two is applied, but its kind does not know the fields metadata.label, spec.xn, spec.xtra',
        transient: false,
      },
    ]
    expect(await apply()).toEqual({ applied: 2, unchanged: 0, problems })
    expect(writer.objects.get('two')?.spec).toEqual({ n: 2, xn: 3, xtra: {} })
    expect(await apply()).toEqual({ applied: 0, unchanged: 2, problems })
  })

  it('is named only if it is among the first ten', async () => {
    const many = Array.from({ length: 12 }, (_, at) => `x${at}: 1`).join(', ')
    await ship({ 'a.yaml': gadget('one', `{${many}}`) })
    const [problem] = (await apply()).problems
    expect(problem?.message).toMatch(/fields spec\.x0, .*, spec\.x9 and 2 more$/)
  })
})

describe('the files', () => {
  it('are every .yaml and .yml, in subfolders too, by path; links to files are followed', async () => {
    await ship({
      'b.yml': gadget('b', '{n: 1}'),
      'a/z.yaml': gadget('z', '{n: 1}'),
      'a/a.YAML': gadget('a', '{n: 1}'),
      'c.json': '{',
      'readme.md': '# no',
      '.hidden.yaml': 'a: [',
      '..data/c.yaml': gadget('c', '{n: 1}'),
      'windows.yaml': `\uFEFF${gadget('w', '{n: 1}').replaceAll('\n', '\r\n')}`,
    })
    await symlink('..data/c.yaml', join(resourcesDir, 'extensions', 'c.yaml'))
    await symlink('.', join(resourcesDir, 'extensions', 'circle'))
    expect(await apply()).toEqual({ ...clean, applied: 5 })
    expect([...writer.objects.keys()]).toEqual(['a', 'z', 'b', 'c', 'w'])
  })

  it('are reported if they cannot be read', async () => {
    await ship({ 'b.yaml': gadget('b', '{n: 1}') })
    await writeFile(join(resourcesDir, 'extensions', 'a.yaml'), Buffer.from([0x61, 0x3a, 0xff]))
    await symlink('nowhere', join(resourcesDir, 'extensions', 'c.yaml'))
    expect(await apply()).toMatchObject({
      applied: 1,
      problems: [
        { file: 'resources/extensions/a.yaml', line: 1, message: 'is not valid UTF-8' },
        { file: 'resources/extensions/c.yaml', line: 1, message: expect.stringContaining('ENOENT') },
      ],
    })
  })

  it('may be missing', async () => {
    expect(await apply()).toEqual({ ...clean, applied: 0 })
    await writeFile(join(resourcesDir, 'extensions'), 'a file')
    expect((await apply()).problems).toMatchObject([{ file: 'resources/extensions', line: 1 }])
  })
})

it('an abort stops between two documents', async () => {
  await ship({ 'a.yaml': `${gadget('one', '{n: 1}')}---\n${gadget('two', '{n: 2}')}` })
  const controller = new AbortController()
  writer.beforeWrite = () => controller.abort(new Error('stopping'))
  await expect(apply('1.0.0', 'demo', controller.signal)).rejects.toThrow('stopping')
  expect([...writer.objects.keys()]).toEqual(['one'])
})
