import type { PluginPermission, UserInfo } from '@setpoint/controller-runtime'
import { ApiError, isApiError } from '@setpoint/controller-runtime/api'
import type { RouteCallers } from '../http/index.ts'
import {
  type Authorizer,
  builtInGroups,
  everyCombination,
  type Grant,
  systemGroups,
} from '../security/index.ts'
import type { Actor } from './actor.ts'

/** The group of all plugins. */
const pluginsGroup = 'setpoint:plugins'

/** Returns the name of the user that a plugin is, for bindings. */
export function pluginUserName(plugin: string): string {
  return `setpoint:plugin:${plugin}`
}

const ownKind: Grant = Object.freeze({ reason: 'the kind belongs to the plugin' })

interface PluginActorParts {
  readonly authorizer: Authorizer
  readonly callers: Pick<RouteCallers, 'has' | 'onLeave'>
  /** True without authentication: all callers on this machine are administrators then, and so are plugins. */
  readonly isOpen: boolean
}

/** A plugin in the server's process. It may do everything with its own kinds, and else what its roles allow. */
export class PluginActor implements Actor {
  readonly user: UserInfo
  readonly #plugin: string
  readonly #authorizer: Authorizer
  readonly #callers: Pick<RouteCallers, 'has' | 'onLeave'>

  constructor(plugin: string, parts: PluginActorParts) {
    const groups = [pluginsGroup, parts.isOpen ? builtInGroups.admins : systemGroups.authenticated]
    this.user = Object.freeze({ name: pluginUserName(plugin), groups: Object.freeze(groups) })
    this.#plugin = plugin
    this.#authorizer = parts.authorizer
    this.#callers = parts.callers
  }

  /** Returns those permissions that no role grants. None while the roles are being read. */
  missing(permissions: readonly PluginPermission[]): readonly PluginPermission[] {
    const allows: Parameters<typeof everyCombination>[2] = (verb, target) =>
      this.#authorizer.allows(this.user, verb, target)
    try {
      return permissions.filter(permission => !everyCombination(permission, undefined, allows))
    } catch (error) {
      if (isApiError(error, 'ServiceUnavailable')) return []
      throw error
    }
  }

  /** Also calls back when the response to the user has been sent, if it acts for the caller of a route. */
  onChange(changed: () => void, user = this.user): () => void {
    const stops = [this.#authorizer.onChange(changed), this.#callers.onLeave(user, changed)]
    return () => {
      for (const stop of stops) stop()
    }
  }

  checkUser(user: UserInfo): void {
    if (user !== this.user && !this.#callers.has(user)) {
      throw new ApiError(
        'Forbidden',
        'client.as needs the user of a request whose response has not been sent yet',
      )
    }
  }

  grantOf(user: UserInfo, { verb, target, served }: Parameters<Actor['grantOf']>[1]): Grant | undefined {
    if (user === this.user && served?.plugin === this.#plugin) return ownKind
    return this.#authorizer.grantOf(user, verb, target)
  }
}
