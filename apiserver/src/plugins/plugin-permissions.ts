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

  /** Returns the problems that permissions are missing, because the plugin's role is not bound or lacks them. */
  problems(permissions: readonly PluginPermission[]): ReportedProblem[] {
    const missing = this.#actor.missing(permissions)
    const { name } = this.#actor.user
    const lacking = this.#environment.roles.lacking(name, missing)
    const unbound = missing.filter(permission => !lacking.includes(permission))
    const messages: string[] = []
    if (unbound.length > 0) {
      // What the user of a process with controllers may do is not known here.
      const others =
        this.#environment.manager === undefined
          ? ' and to the service account of the processes with controllers, setpoint-system:controllers by default'
          : ''
      messages.push(
        `no role grants ${showAll(unbound)}; bind the ClusterRole ${name} to the user ${name}${others}, or start the server with --grant-plugins`,
      )
    }
    if (lacking.length > 0) {
      messages.push(
        `no role grants ${showAll(lacking)}; the ClusterRole ${name} is older than this version of the plugin and lacks these rules: add them with \`${patchOf(name, lacking)}\`, or start the server with --grant-plugins`,
      )
    }
    return messages.map(message => ({ source: 'permissions', message }))
  }
}

/** Returns the command that adds rules to a ClusterRole. */
function patchOf(role: string, rules: readonly PluginPermission[]): string {
  const operations = rules.map(value => ({ op: 'add', path: '/rules/-', value }))
  const document = JSON.stringify(operations).replaceAll("'", "'\\''")
  return `kubectl patch clusterrole ${role} --type json --patch '${document}'`
}

function showAll(permissions: readonly PluginPermission[]): string {
  return permissions.map(show).join(', ')
}

function show({ apiGroups, resources, verbs }: PluginPermission): string {
  const groups = apiGroups.map(group => group || 'core').join('|')
  return `${verbs.join('|')} on ${resources.join('|')} of ${groups}`
}
