import { definePlugin } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { expect, test } from 'vitest'
import type { LoadedPlugin } from './load-plugin.ts'
import { type LoadOutcome, loadingDefaults, loadPlugins, objectNameOf } from './load-plugins.ts'
import { PluginLoadError } from './plugin-package.ts'

function loaded(dir: string, name: string): LoadedPlugin {
  const plugin = definePlugin({ name })
  return { dir, packageName: name, packageVersion: '1.0.0', plugin, resourcesDir: undefined }
}

/** Folders that load when the test says so. */
class Folders {
  readonly #settle = new Map<string, (outcome: Promise<LoadedPlugin>) => void>()
  readonly clock = new FakeClock()
  readonly seen: string[] = []
  readonly ended: Promise<void>

  constructor(...dirs: string[]) {
    const load = (dir: string) => new Promise<LoadedPlugin>(settle => this.#settle.set(dir, settle))
    this.ended = this.#collect(loadPlugins(dirs, load, this.clock))
  }

  async #collect(outcomes: AsyncIterable<LoadOutcome>): Promise<void> {
    for await (const outcome of outcomes)
      this.seen.push('error' in outcome ? outcome.error.message : outcome.loaded.plugin.name)
  }

  load(dir: string, name = dir): Promise<void> {
    this.#settle.get(dir)?.(Promise.resolve(loaded(dir, name)))
    return turn()
  }

  fail(dir: string, error: unknown): Promise<void> {
    this.#settle.get(dir)?.(Promise.reject(error))
    return turn()
  }
}

const turn = () => new Promise<void>(resolve => setImmediate(resolve))

test('plugins come in the order of their folders, regardless of the order of loading', async () => {
  const folders = new Folders('a', 'b', 'c')
  await folders.load('c')
  await folders.load('b')
  expect(folders.seen).toEqual([])
  await folders.load('a')
  await folders.ended
  expect(folders.seen).toEqual(['a', 'b', 'c'])
})

test('a plugin that does not finish loading delays the others only for a while, and is added when it is loaded', async () => {
  const folders = new Folders('a', 'b', 'c')
  await folders.load('b')
  await folders.clock.advance(loadingDefaults.orderMs)
  await turn()
  expect(folders.seen).toEqual(['b'])
  await folders.load('c')
  expect(folders.seen).toEqual(['b', 'c'])
  await folders.load('a')
  await folders.ended
  expect(folders.seen).toEqual(['b', 'c', 'a'])
})

test('a plugin that cannot be loaded keeps its place, and other errors are thrown', async () => {
  const folders = new Folders('a', 'b', 'c')
  await folders.load('c')
  await folders.fail('a', new PluginLoadError('a', 'has no package.json'))
  await folders.fail('b', new TypeError('odd'))
  await folders.ended
  expect(folders.seen).toEqual(['plugin a: has no package.json', 'plugin b: TypeError: odd', 'c'])
})

test('of two plugins with one name the first is used, and the error of the other names its folder', async () => {
  const folders = new Folders('a', 'b')
  await folders.load('b', 'same')
  await folders.load('a', 'same')
  await folders.ended
  expect(folders.seen).toEqual(['same', expect.stringMatching(/^plugin b: the name "same" .* plugin in a;/)])
})

test.each([
  ['/plugins/Demo_2', 'demo-2'],
  ['/plugins/demo/', 'demo'],
  ['/', 'unnamed'],
  [`/${'a'.repeat(62)}.b`, 'a'.repeat(62)],
])('the folder %s has the object name %s', (dir, name) => {
  expect(objectNameOf(dir)).toBe(name)
})
