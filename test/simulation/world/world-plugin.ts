import { setTimeout as delay } from 'node:timers/promises'
import { definePlugin } from '@setpoint/controller-runtime'
import type {
  CodeLoader,
  LoadedPlugin,
  PluginSource,
  ReloadOutcome,
} from '../../../apiserver/src/plugins/index.ts'
import type { Release, ServedRelease } from './world.ts'

const source: PluginSource = { kind: 'folder', path: '/world', label: '/world' }

/** Milliseconds that loading the modules of a plugin takes, while the server responds. */
const loadMs = 20

/** The folder of the one plugin on the machine of a server. Its release is what the next start or reload loads. */
export class WorldPlugin implements CodeLoader {
  readonly source = source
  /** The releases that processes of this server have loaded. */
  readonly served: ServedRelease[] = []
  readonly #server: number
  readonly #releases: readonly Release[]
  readonly #now: () => number
  #release = 0

  constructor(parts: { server: number; releases: readonly Release[]; now: () => number }) {
    this.#server = parts.server
    this.#releases = parts.releases
    this.#now = parts.now
  }

  install(release: number): void {
    if (this.#releases[release] === undefined) throw new RangeError(`there is no release ${release}`)
    this.#release = release
  }

  async load(): Promise<LoadedPlugin> {
    await delay(loadMs)
    const release = this.#release
    const models = this.#releases[release]?.() ?? []
    this.served.push({ server: this.#server, release, from: this.#now(), until: Number.POSITIVE_INFINITY })
    return {
      plugin: definePlugin({ name: 'world', models }),
      dir: source.path,
      packageName: 'world',
      packageVersion: `1.${release}.0`,
      resourcesDir: undefined,
    }
  }

  /** Records that a reload has ended: the release that was loaded last serves alone, or not at all. */
  settle({ reloaded }: ReloadOutcome): void {
    const last = this.served.length - 1
    this.#end((_, index) => (index === last) !== reloaded)
  }

  /** Records that the process has ended. */
  end(): void {
    this.#end(() => true)
  }

  #end(isOver: (served: ServedRelease, index: number) => boolean): void {
    const until = this.#now()
    for (const [index, served] of this.served.entries())
      if (served.until > until && isOver(served, index)) this.served[index] = { ...served, until }
  }
}
