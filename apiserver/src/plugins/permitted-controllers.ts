import type { Logger, Manager } from '@setpoint/controller-runtime'
import { isApiError, type Model } from '@setpoint/controller-runtime/api'
import type { HostedPlugin } from '@setpoint/controller-runtime/internal'
import type { ModelRegistry } from '../model/index.ts'
import type { ReportedProblem } from './index-report.ts'
import type { PluginActor } from './plugin-actor.ts'

type Controller = HostedPlugin['controllers'][number]

interface PermittedControllersParts {
  readonly controllers: readonly Controller[]
  readonly manager: Manager
  readonly models: Pick<ModelRegistry, 'find'>
  readonly actor: PluginActor
  readonly log: Logger
  /** Called after `problems` may have changed. */
  readonly changed: () => void
}

/** The verbs of an informer. */
const readingVerbs = ['list', 'watch'] as const

/**
 * The controllers of a plugin that may read their kinds. All plugins share the informers of the process, which read as
 * the server itself, so the permissions of a plugin count here: a controller is added once its plugin may list and
 * watch every kind that it reads, and is removed when it no longer may.
 */
export class PermittedControllers {
  readonly #parts: PermittedControllersParts
  readonly #waiting: Set<Controller>
  readonly #added = new Set<Controller>()
  readonly #problems = new Map<Controller, string>()

  constructor(parts: PermittedControllersParts) {
    this.#parts = parts
    this.#waiting = new Set(parts.controllers)
  }

  get problems(): ReportedProblem[] {
    return [...this.#problems].map(([{ name }, message]) => ({ source: `controller ${name}`, message }))
  }

  /**
   * Adds those controllers that may read their kinds, and follows the permissions of the plugin until the signal is
   * aborted.
   * @throws Error if the name of a controller is taken
   */
  start(signal: AbortSignal): void {
    const { log } = this.#parts
    this.#check()
    const stop = this.#parts.actor.onChange(() => {
      try {
        this.#check()
      } catch (error) {
        log.error({ err: error }, 'failed to add a controller')
      }
    })
    signal.addEventListener('abort', stop, { once: true })
  }

  /** Removes and adds controllers as the permissions are now. @throws Error if the name of a controller is taken */
  #check(): void {
    const { manager, log } = this.#parts
    for (const controller of this.#added) {
      const hidden = this.#hiddenFrom(controller)
      if (hidden === '') continue
      this.#added.delete(controller)
      const message = `it has stopped, because it may no longer list and watch ${hidden}; reload the plugin when it may again`
      this.#report(controller, message)
      manager
        .remove(controller)
        .catch(error => log.error({ controller: controller.name, err: error }, 'failed to stop a controller'))
    }
    for (const controller of this.#waiting) {
      const hidden = this.#hiddenFrom(controller)
      this.#report(
        controller,
        hidden && `it may not list and watch ${hidden}, and reconciles nothing until then`,
      )
      if (hidden !== '') continue
      this.#waiting.delete(controller)
      manager.add(controller)
      this.#added.add(controller)
    }
  }

  /** Keeps the problem of a controller. '' stands for none. */
  #report(controller: Controller, message: string): void {
    const { log, changed } = this.#parts
    if (message === (this.#problems.get(controller) ?? '')) return
    if (message === '') {
      this.#problems.delete(controller)
      log.info({ controller: controller.name }, 'a controller may read its kinds and starts')
    } else {
      this.#problems.set(controller, message)
      log.warn({ controller: controller.name, problem: message }, 'a controller may not read its kinds')
    }
    changed()
  }

  /** Returns the kinds of a controller that the plugin may not read, or ''. */
  #hiddenFrom({ models }: Controller): string {
    return models
      .filter(model => !this.#mayRead(model))
      .map(({ kind, group }) => `${kind} of ${group || 'core'}`)
      .join(', ')
  }

  #mayRead({ group, version, plural }: Model): boolean {
    const { models, actor } = this.#parts
    const served = models.find(group, version, plural)
    const target = { group, plural, namespace: undefined, name: undefined, subresource: undefined }
    try {
      return readingVerbs.every(verb => actor.grantOf(actor.user, { verb, target, served }) !== undefined)
    } catch (error) {
      // The roles are being read, and their first change is told.
      if (isApiError(error, 'ServiceUnavailable')) return false
      throw error
    }
  }
}
