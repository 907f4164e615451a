import { type ObjectKey, splitObjectKey } from '@setpoint/controller-runtime/api'
import type { AuditLog } from '../audit/index.ts'
import { auditOutcomeOf, passChecks, type ResourcePath, targetOfPath } from '../http/index.ts'
import type { ServedModel } from '../model/index.ts'
import type { Registry, WriteOptions, WriteResult } from '../registry/index.ts'
import type { Verb } from '../security/index.ts'
import { type Actor, serverActor } from './actor.ts'

interface ActorWritesParts {
  readonly registry: Pick<Registry, 'create' | 'patch' | 'delete' | 'readLive'>
  /** Undefined if requests are not audited. */
  readonly audit: AuditLog | undefined
}

/** The parts of a path that a write decides. */
type Place = Pick<ResourcePath, 'namespace' | 'name'> & { readonly subresource?: string }

/**
 * The writes of the server itself, and of the objects that plugins ship. They go to the registry without a request, but
 * are authorized and audited as requests of their actor.
 */
export class ActorWrites {
  readonly actor: Actor
  readonly #parts: ActorWritesParts

  constructor(parts: ActorWritesParts, actor: Actor = serverActor) {
    this.#parts = parts
    this.actor = actor
  }

  /** Returns the writes of another actor. */
  for(actor: Actor): ActorWrites {
    return new ActorWrites(this.#parts, actor)
  }

  readonly readLive: Registry['readLive'] = (...args) => this.#parts.registry.readLive(...args)

  readonly create: Registry['create'] = (...args) => {
    const [served, body, options] = args
    const place = { namespace: options.namespace, name: undefined }
    return this.#write('create', served, place, options, body, registry => registry.create(...args))
  }

  readonly patch: Registry['patch'] = (...args) => {
    const [served, key, { document }, scope, options] = args
    const place = { ...placeOf(served, key), ...(scope !== 'object' && { subresource: scope }) }
    return this.#write('patch', served, place, options, document, registry => registry.patch(...args))
  }

  readonly delete: Registry['delete'] = (...args) => {
    const [served, key, , options] = args
    return this.#write('delete', served, placeOf(served, key), options, undefined, registry =>
      registry.delete(...args),
    )
  }

  async #write(
    verb: Verb,
    served: ServedModel,
    { namespace, name, subresource }: Place,
    { version = served.hub }: WriteOptions,
    document: unknown,
    write: (registry: ActorWritesParts['registry']) => Promise<WriteResult>,
  ): Promise<WriteResult> {
    const { registry, audit: log } = this.#parts
    const { actor } = this
    const { user } = actor
    const { group, plural, sensitive: isSensitive } = served.model
    const path = { group, version: version.name, plural, namespace, name, subresource }
    const uri = uriOf(path)
    const audit = log?.begin({ uri, headers: {}, remoteAddress: undefined })
    try {
      await passChecks({
        audit,
        authenticate: () => ({ user, credential: undefined }),
        impersonate: caller => caller,
        read: () => ({ verb, target: targetOfPath(path), isSensitive, served }),
        // These writes follow one another.
        turn: () => undefined,
        grantOf: (_identity, request) => actor.grantOf(user, request),
      })
      audit?.onDocument?.(document)
      const result = await write(registry)
      const location = `${uri}/${placeOf(served, result.key).name}`
      audit?.completed(
        verb === 'create' ? { code: 201, body: result.bytes, location } : { code: 200, body: result.bytes },
      )
      return result
    } catch (error) {
      audit?.completed(auditOutcomeOf(error))
      throw error
    }
  }
}

function placeOf({ indexes }: ServedModel, key: ObjectKey): { namespace: string | undefined; name: string } {
  return indexes.isNamespaced ? splitObjectKey(key) : { namespace: undefined, name: key }
}

function uriOf({ group, version, plural, namespace, name, subresource }: ResourcePath): string {
  const root = group === '' ? ['api'] : ['apis', group]
  const place = namespace === undefined ? [] : ['namespaces', namespace]
  const parts = [...root, version, ...place, plural, name, subresource]
  return parts.map(part => (part === undefined ? '' : `/${encodeURIComponent(part)}`)).join('')
}
