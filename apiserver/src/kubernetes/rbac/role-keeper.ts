import { isDeepStrictEqual } from 'node:util'
import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import { isApiError, type Model, type ObjectKey, objectKey } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import type { Entry, LogFollower } from '../../cache/index.ts'
import type { Logger } from '../../log/index.ts'
import type { ServedModel } from '../../model/index.ts'
import { declaredWriteOptions, type Registry, serviceWriteOptions } from '../../registry/index.ts'
import { everyCombination, type PolicyRule, type RbacAuthorizer, RuleIndex } from '../../security/index.ts'
import { type Fields, recordOf, recordsOf } from '../fields.ts'
import { controllersAccount, controllersTokenBinding, controllersTokenRole } from './controllers-account.ts'
import type { DefaultObject } from './default-object.ts'
import {
  autoupdateAnnotation,
  defaultClusterRoleBindings,
  defaultClusterRoles,
  grantOfPlugin,
  rolesOfPlugin,
} from './default-roles.ts'
import type { RbacKinds } from './rbac-kinds.ts'
import { readRules } from './read-roles.ts'

export const roleKeeperDefaults = Object.freeze({
  /** Milliseconds until a failed write is retried. */
  retryMs: 1_000,
})

interface RoleKeeperParts {
  readonly kinds: RbacKinds
  readonly serviceAccounts: ServedModel
  readonly registry: Pick<Registry, 'create' | 'patch'>
  readonly follower: Pick<LogFollower, 'cacheOf'>
  readonly authorizer: RbacAuthorizer
  readonly log: Logger
  readonly clock?: Clock
}

interface Wanted {
  readonly kind: ServedModel
  readonly object: DefaultObject
  /** True if it is the same in every server. */
  readonly isDeclared?: boolean
}

/**
 * Writes the default roles and bindings, the service account of the controllers, and the rules of aggregated
 * ClusterRoles. Each server does so: what another one has written needs no write.
 *
 * As in Kubernetes, default objects are created and completed when the server starts, and those of a plugin when it
 * starts. Those from which an operator has removed the annotation `autoupdate` stay as they are. Decisions do not wait
 * for the rules of aggregated roles: the authorizer computes them itself.
 */
export class RoleKeeper {
  readonly #parts: RoleKeeperParts
  readonly #clock: Clock
  readonly #signal: AbortSignal
  #wanted: Wanted[]
  #isStale = true
  /** True once the caches of the kinds are complete. */
  #isStarted = false
  #isRunning = false
  readonly #attempted = firstAttempt()
  /** The stored objects of aggregated roles, by the rules that they were found to have. */
  readonly #aggregated = new WeakMap<readonly PolicyRule[], Entry>()

  /** Works until the signal is aborted. */
  constructor(parts: RoleKeeperParts, signal: AbortSignal) {
    const { roles, roleBindings, clusterRoles, clusterRoleBindings } = parts.kinds
    this.#parts = parts
    this.#clock = parts.clock ?? systemClock
    this.#signal = signal
    const declared = [
      ...defaultClusterRoles.map(object => ({ kind: clusterRoles, object })),
      ...defaultClusterRoleBindings.map(object => ({ kind: clusterRoleBindings, object })),
      { kind: parts.serviceAccounts, object: controllersAccount },
      { kind: roles, object: controllersTokenRole },
      { kind: roleBindings, object: controllersTokenBinding },
    ]
    this.#wanted = declared.map(each => ({ ...each, isDeclared: true }))
  }

  /**
   * Resolves after the first attempt to write the default objects. Failures are retried. The caches of the kinds must
   * be complete. Never rejects.
   */
  start(): Promise<void> {
    this.#isStarted = true
    const stop = this.#parts.authorizer.onChange(() => {
      this.#isStale = true
      void this.#run()
    })
    this.#signal.addEventListener('abort', stop, { once: true })
    void this.#run()
    return this.#attempted.promise
  }

  /** Creates or completes the ClusterRoles of a plugin's kinds. */
  keep(plugin: string, models: readonly Model[]): void {
    const { clusterRoles } = this.#parts.kinds
    this.#wanted.push(...rolesOfPlugin(plugin, models).map(object => ({ kind: clusterRoles, object })))
    void this.#run()
  }

  /**
   * Creates the ClusterRole with the permissions that a plugin asks for besides its own kinds, and binds it if they are
   * granted. Both have the name of the plugin's user.
   */
  request(user: string, rules: readonly PolicyRule[], isGranted: boolean): void {
    const { clusterRoles, clusterRoleBindings } = this.#parts.kinds
    const { role, binding } = grantOfPlugin(user, rules, isGranted)
    this.#wanted.push({ kind: clusterRoles, object: role })
    if (binding !== undefined) this.#wanted.push({ kind: clusterRoleBindings, object: binding })
    void this.#run()
  }

  /**
   * Returns those permissions that the ClusterRole with the name of a plugin's user lacks. None if there is no such
   * role yet.
   */
  lacking<T extends PolicyRule>(user: string, permissions: readonly T[]): readonly T[] {
    const rules = this.#parts.authorizer.policy.rulesOfRole({ kind: 'ClusterRole', name: user }, undefined)
    return rules === undefined ? [] : permissions.filter(permission => !covers(rules, permission))
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    if (this.#isRunning || !this.#isStarted) return
    this.#isRunning = true
    const { log } = this.#parts
    const yielder = new Yielder(this.#clock)
    while (!this.#signal.aborted && (this.#isStale || this.#wanted.length > 0)) {
      try {
        // All of it is tried again until it succeeds, and plugins may add to it meanwhile.
        const wanted = [...this.#wanted]
        await Promise.all(wanted.map(each => this.#ensureOrSkip(each)))
        this.#wanted = this.#wanted.slice(wanted.length)
        this.#isStale = false
        for (const name of this.#parts.authorizer.policy.aggregated()) {
          await yielder.pause()
          await this.#aggregate(name)
        }
      } catch (error) {
        if (this.#signal.aborted) break
        this.#isStale = true
        log.warn({ err: error }, 'failed to write default roles, retrying')
        this.#attempted.resolve()
        await sleep(this.#clock, roleKeeperDefaults.retryMs, this.#signal).catch(() => {})
      }
    }
    this.#isRunning = false
    this.#attempted.resolve()
  }

  /** Skips an object that is refused, because a retry would not help. */
  async #ensureOrSkip(wanted: Wanted): Promise<void> {
    try {
      await this.#ensure(wanted)
    } catch (error) {
      if (!isApiError(error, 'Invalid')) throw error
      this.#parts.log.error({ name: wanted.object.name, err: error }, 'failed to write a default role')
    }
  }

  async #ensure({ kind, object, isDeclared }: Wanted): Promise<void> {
    const { namespace, name, labels, content, completed: when } = object
    const key = objectKey({ namespace, name })
    const entry = this.#entryOf(kind, key)
    const { registry } = this.#parts
    if (entry === undefined) {
      const { apiVersion, kind: kindName } = kind.model
      const annotations = { [autoupdateAnnotation]: 'true' }
      const metadata = { name, labels, ...(when === undefined && { annotations }) }
      await registry
        .create(
          kind,
          { apiVersion, kind: kindName, metadata, ...content },
          {
            ...(isDeclared ? declaredWriteOptions : serviceWriteOptions),
            namespace,
          },
        )
        .catch(error => {
          // Another server was faster.
          if (!isApiError(error, 'AlreadyExists')) throw error
        })
      return
    }
    const found = fieldsOf(entry)
    const metadata = recordOf(found.metadata)
    const isAnnotated = recordOf(metadata.annotations)[autoupdateAnnotation] === 'true'
    if (when === 'never' || (when === undefined && !isAnnotated)) return
    const document = completed(found, content)
    const isLabelled = Object.entries(labels).every(
      ([key, value]) => recordOf(metadata.labels)[key] === value,
    )
    if (document === undefined && isLabelled) return
    await this.#patch(kind, key, { metadata: { labels }, ...document })
  }

  /**
   * Writes the rules that an aggregated role has, for those who read it. Compares them only after one of both has
   * changed.
   */
  async #aggregate(name: string): Promise<void> {
    const { kinds, authorizer, log } = this.#parts
    const rules = authorizer.policy.rulesOfRole({ kind: 'ClusterRole', name }, undefined)
    const entry = this.#entryOf(kinds.clusterRoles, name)
    if (rules === undefined || entry === undefined || this.#aggregated.get(rules) === entry) return
    if (isDeepStrictEqual(rules, readRules(fieldsOf(entry).rules))) {
      this.#aggregated.set(rules, entry)
      return
    }
    try {
      await this.#patch(kinds.clusterRoles, name, { rules })
    } catch (error) {
      if (isApiError(error, 'NotFound')) return
      if (!isApiError(error, 'Invalid')) throw error
      log.warn({ clusterRole: name, err: error }, 'failed to write the rules of an aggregated role')
    }
  }

  async #patch(kind: ServedModel, key: ObjectKey, document: object): Promise<void> {
    await this.#parts.registry.patch(kind, key, { type: 'merge', document }, 'object', serviceWriteOptions)
  }

  #entryOf(kind: ServedModel, key: ObjectKey): Entry | undefined {
    return this.#parts.follower.cacheOf(kind)?.store.get(key)
  }
}

function fieldsOf({ bytes }: Entry): Fields {
  return recordOf(JSON.parse(bytes.toString()))
}

function firstAttempt(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>(settle => {
    resolve = settle
  })
  return { promise, resolve }
}

/** Returns the fields of a default object that a present one lacks, or undefined. Never takes anything away. */
function completed(found: Fields, wanted: Fields): Fields | undefined {
  const { aggregationRule, subjects } = wanted
  if (aggregationRule !== undefined)
    return isDeepStrictEqual(aggregationRule, found.aggregationRule) ? undefined : { aggregationRule }
  if (subjects !== undefined) {
    const present = recordsOf(found.subjects)
    const missing = recordsOf(subjects).filter(
      ({ kind, name, namespace }) =>
        !present.some(each => each.kind === kind && each.name === name && each.namespace === namespace),
    )
    return missing.length === 0 ? undefined : { subjects: [...present, ...missing] }
  }
  const rules = readRules(found.rules)
  const missing = readRules(wanted.rules).filter(rule => !covers(rules, rule))
  return missing.length === 0 ? undefined : { rules: [...rules, ...missing] }
}

function covers(rules: readonly PolicyRule[], rule: PolicyRule): boolean {
  const index = new RuleIndex(rules)
  return everyCombination(rule, undefined, (verb, target) => index.allows(verb, target))
}
