import type { PluginPermission } from '@setpoint/controller-runtime'
import type { ReportedProblem } from './index-report.ts'
import type { PluginActor } from './plugin-actor.ts'
import type { PluginEnvironment } from './plugin-environment.ts'

/** The permissions that a plugin asks for besides those of its own kinds. */
export class PluginPermissions {
  readonly #actor: PluginActor
  readonly #environment: Pick<PluginEnvironment, 'roles' | 'grantsPermissions' | 'manager'>

  constructor(
    actor: PluginActor,
    environment: Pick<PluginEnvironment, 'roles' | 'grantsPermissions' | 'manager'>,
  ) {
    this.#actor = actor
    this.#environment = environment
  }

  /** Asks for permissions. Calls back whenever `problems` may have changed, until the signal is aborted. */
  ask(permissions: readonly PluginPermission[], signal: AbortSignal, changed: () => void): void {
    if (permissions.length === 0) return
    const { roles, grantsPermissions } = this.#environment
    roles.request(this.#actor.user.name, permissions, grantsPermissions)
    signal.addEventListener('abort', this.#actor.onChange(changed), { once: true })
  }

  /** Returns the problem that permissions are missing, if some are. */
  problems(permissions: readonly PluginPermission[]): ReportedProblem[] {
    const missing = this.#actor.missing(permissions)
    if (missing.length === 0) return []
    const { name } = this.#actor.user
    // What the user of a process with controllers may do is not known here.
    const others =
      this.#environment.manager === undefined
        ? ' and to the service account of the processes with controllers, setpoint-system:controllers by default'
        : ''
    const message = `no role grants ${missing.map(show).join(', ')}; bind the ClusterRole ${name} to the user ${name}${others}, or start the server with --grant-plugins`
    return [{ source: 'permissions', message }]
  }
}

function show({ apiGroups, resources, verbs }: PluginPermission): string {
  const groups = apiGroups.map(group => group || 'core').join('|')
  return `${verbs.join('|')} on ${resources.join('|')} of ${groups}`
}
