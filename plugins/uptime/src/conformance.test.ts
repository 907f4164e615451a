import { existsSync, renameSync, writeFileSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { reconcilerConformance } from '@setpoint/controller-runtime/testing'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { uptime } from './index.ts'
import { Journal } from './journal.ts'
import { Probe } from './probe.ts'
import { openSettings, Target } from './testing/target.ts'

let target: Target
beforeAll(async () => {
  target = await Target.start()
})
afterAll(() => target.stop())

/** A folder for journals, and its content. */
class JournalFolder implements AsyncDisposable {
  readonly path: string

  constructor(parent: string) {
    this.path = join(parent, 'journal')
  }

  async names(): Promise<string[]> {
    return existsSync(this.path) ? await readdir(this.path) : []
  }

  /** The transitions of each probe, without times. */
  async transitions(): Promise<string[]> {
    const texts = (await this.names()).map(name => readFile(join(this.path, name), 'utf8'))
    return (await Promise.all(texts)).map(text => text.replace(/"time":"[^"]*"/g, '')).sort()
  }

  /** Replaces the folder by a file. */
  breakDown(): () => void {
    const kept = `${this.path}-kept`
    if (existsSync(this.path)) renameSync(this.path, kept)
    writeFileSync(this.path, '')
    return () => {
      renameSync(this.path, `${this.path}-file`)
      if (existsSync(kept)) renameSync(kept, this.path)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(join(this.path, '..'), { recursive: true })
  }
}

describe('the probe reconciler', () => {
  reconcilerConformance({
    model: Probe,
    plugin: ({ outside }) => uptime(new Journal(outside.path)),
    settings: openSettings,
    outside: async () => new JournalFolder(await mkdtemp(join(tmpdir(), 'uptime-'))),
    objects: () =>
      ['a', 'b', 'c'].map(name => ({
        metadata: { name },
        spec: { url: `${target.url}${name}`, intervalSeconds: 3600 },
      })),
    changes: () => [
      { spec: { tags: ['x'] } },
      { spec: { intervalSeconds: 1800 } },
      { spec: { expectStatus: 204 } },
    ],
    isConverged: async ({ object: { metadata, status }, outside }) =>
      status?.observedGeneration === metadata.generation &&
      (await outside.names()).includes(`${metadata.uid}.jsonl`),
    isCleanedUp: async ({ object, outside }) =>
      !(await outside.names()).some(name => name.startsWith(object.metadata.uid)),
    world: async ({ outside, client }) => ({
      journals: await outside.transitions(),
      found: (await client.list(Probe)).items.map(({ status }) => [
        status?.state,
        status?.reason,
        status?.message,
      ]),
    }),
    outages: { 'a file is where the journals should be': folder => folder.breakDown() },
  }).register(test.concurrent)
})
