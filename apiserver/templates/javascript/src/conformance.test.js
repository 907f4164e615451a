import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { reconcilerConformance } from '@setpoint/controller-runtime/testing'
import { describe, test } from 'vitest'
import { Page } from './page.js'
import { pages } from './plugin.js'
import { fileOf, render } from './site.js'

/** What the reconciler changes outside of the API: a folder, created for each run of the suite. */
class Site {
  constructor(folder) {
    this.folder = folder
  }

  /** The text of a page's file, or undefined if there is no file. */
  read(name) {
    return readFile(fileOf(this.folder, name), 'utf8').catch(() => undefined)
  }

  async [Symbol.asyncDispose]() {
    await rm(this.folder, { recursive: true })
  }
}

// Disturbs the reconciler at each of its API calls: crashes, refusals, lost responses, deletions, a stale cache.
describe('the reconciler of pages', () => {
  reconcilerConformance({
    model: Page,
    outside: async () => new Site(await mkdtemp(join(tmpdir(), 'plugin-name-'))),
    plugin: ({ outside }) => pages(outside.folder),
    objects: () => [
      { metadata: { name: 'a' }, spec: { title: 'A', text: 'First.' } },
      { metadata: { name: 'b' }, spec: { title: 'B', text: 'Second.' } },
    ],
    changes: () => [{ spec: { text: 'Changed.' } }, { spec: { text: 'Changed again.' } }],
    isConverged: async ({ object, outside }) =>
      object.status?.observedGeneration === object.metadata.generation &&
      (await outside.read(object.metadata.name)) === render(object.spec),
    isCleanedUp: async ({ object, outside }) => (await outside.read(object.metadata.name)) === undefined,
    world: ({ outside }) => readdir(outside.folder),
  }).register(test.concurrent)
})
