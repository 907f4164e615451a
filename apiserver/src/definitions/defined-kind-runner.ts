import type { Logger } from '@setpoint/controller-runtime'
import type { LogFollower } from '../cache/index.ts'
import type { CustomRoutes } from '../http/index.ts'
import { ModelConflictError, type ModelRegistry, type ServedModel } from '../model/index.ts'
import { type IndexFindings, KindRunner } from '../plugins/index.ts'
import type { Registry } from '../registry/index.ts'
import type { Storage } from '../storage/index.ts'
import type { WatchHub } from '../watch/index.ts'

interface DefinedKindParts {
  readonly models: ModelRegistry
  readonly routes: Pick<CustomRoutes, 'clashWith'>
  readonly storage: Storage
  readonly registry: Registry
  readonly follower: LogFollower
  readonly hub: WatchHub
  readonly log: Logger
  /** Called after `findings` may have changed. */
  readonly changed: () => void
}

/**
 * The kind of one definition in this server.
 *
 *     none ──serve──▶ building ──built──▶ served ──serve with another form──▶ served, the next one building ──┐
 *       │                                 ▲ ▲  └──stop──▶ none                                                │
 *       └──fail──▶ failed: 503 ───serve───┘ └──────────────────── exchanged, old watches end ─────────────────┘
 */
export class DefinedKindRunner {
  readonly #parts: DefinedKindParts
  #kind: KindRunner | undefined
  /** What the served kind was made of. */
  #form: string | undefined
  #claiming: Promise<unknown> | undefined

  constructor(parts: DefinedKindParts) {
    this.#parts = parts
  }

  /** The kind that is served, or that was. */
  get served(): ServedModel | undefined {
    return this.#kind?.served
  }

  get findings(): IndexFindings | undefined {
    return this.#kind?.findings
  }

  /** Returns true if a kind of this form is served. */
  serves(form: string): boolean {
    return this.#kind?.served.phase.name === 'Started' && this.#form === form
  }

  /**
   * Serves a kind. The one before is served until this one is built.
   * @param form equal for equal kinds
   * @param isEstablished true if the definition has been served before. Plugins that are not served then yield
   * @throws ModelConflictError also if a route is in its way; ScopeChangedError; when stopped
   */
  async serve(form: string, served: ServedModel, isEstablished: boolean): Promise<void> {
    const { models, routes } = this.#parts
    for (const { apiVersion } of served.versions) {
      const clash = routes.clashWith(apiVersion, served.model)
      if (clash !== undefined) throw new ModelConflictError(clash)
    }
    const next = this.#runnerOf(served)
    const before = this.#kind
    // Before the kind is added: each kind that comes or goes lets definitions that wait for names try again.
    await next.check()
    if (before !== undefined) before.served.next = served
    else if (isEstablished) models.restore(served)
    else models.add(served)
    try {
      await next.build()
      if (before !== undefined) this.#exchange(before.served, served)
    } catch (error) {
      next.stop('it could not be built')
      if (before === undefined) models.remove(served)
      else before.served.next = undefined
      throw error
    }
    this.#kind = next
    this.#form = form
    next.serveIfBuilt()
    before?.stop('its definition has changed')
  }

  /** Responds to all requests for a kind that cannot be served with 503 and the reason. Objects can still be deleted. */
  fail(served: ServedModel, why: string): void {
    this.stop()
    this.#parts.models.add(served)
    this.#kind = this.#runnerOf(served)
    this.#kind.stop(why)
  }

  #runnerOf(served: ServedModel): KindRunner {
    const { models: _, routes: __, ...environment } = this.#parts
    return new KindRunner({ ...environment, served, pluginVersion: undefined })
  }

  #exchange(before: ServedModel, next: ServedModel): void {
    const { models } = this.#parts
    models.remove(before)
    try {
      models.add(next)
    } catch (error) {
      models.add(before)
      throw error
    }
  }

  /** Puts the unique indexes and the stored version of the served kind in force again. @throws when stopped */
  async claimAgain(): Promise<void> {
    this.#claiming ??= this.#kind?.claimAgain().finally(() => {
      this.#claiming = undefined
    })
    await this.#claiming
  }

  /** Serves the kind no longer. Its watches end. */
  stop(): void {
    const kind = this.#kind
    if (kind === undefined) return
    this.#kind = undefined
    this.#form = undefined
    this.#parts.models.remove(kind.served)
    kind.stop('its definition was deleted')
  }

  /** Stops the work in the background, when the server stops. */
  abort(): void {
    this.#kind?.abort()
  }
}
