import { objectKey } from '@setpoint/controller-runtime/api'
import type { BareMeta, BareObject, Scope, ServedModel, ServedVersion } from '../model/index.ts'
import type { Admission, AdmissionOperation, AdmittedFrom, WriteAdmission } from './admission.ts'
import { type ClientObject, readClientObject } from './client-object.ts'
import type { Current, Decision } from './commit-loop.ts'
import { composeObject } from './compose-object.ts'
import { differenceOf, onlyTakesAwayFinalizers } from './difference.ts'
import { checkNamespace } from './identity.ts'
import type { Namespaces } from './namespaces.ts'
import { contentOf, metadataAfter, ownedMetadata, type StoredView } from './object-draft.ts'
import type { AdmittedObject } from './subresource-form.ts'
import { serverUser, type WriteOptions } from './write-options.ts'

/** Decides which writes are admitted, and by whom. */
export class AdmittedWrites {
  readonly #admission: Admission | undefined
  readonly #namespaces: Namespaces | undefined

  constructor(admission: Admission | undefined, namespaces: Namespaces | undefined) {
    this.#admission = admission
    this.#namespaces = namespaces
  }

  /**
   * Returns the admission of a write, or undefined if nothing that is configured concerns it. The writes of the server
   * itself are not subject to it: a webhook that fails must not stop the server.
   */
  of(
    operation: AdmissionOperation,
    served: ServedModel,
    { name, namespace }: { readonly name?: string; readonly namespace?: string | undefined },
    scope: Scope,
    options: WriteOptions,
  ): WriteAdmission | undefined {
    if (!this.#admission?.isActive) return undefined
    const { user, isService, isOfCollection } = options
    if (user === undefined || user === serverUser || isService) return undefined
    const named = isOfCollection ? undefined : name
    return this.#admission.begin({ served, operation, scope, name: named, namespace, user, options })
  }

  /** Returns the admission of a new object, and the object with the changes of mutating webhooks. */
  async creation(
    served: ServedModel,
    client: ClientObject,
    options: WriteOptions,
    managedFields?: BareMeta['managedFields'],
  ): Promise<{ readonly admission?: WriteAdmission; readonly client: ClientObject }> {
    const { version = served.hub, namespace } = options
    const { name, generateName } = client.meta
    const admission = this.of('CREATE', served, { name, namespace }, 'object', options)
    // What cannot be read is refused in any case.
    if (admission === undefined || !client.causes.isEmpty) return { client }
    // As in Kubernetes, nobody is asked about an object for a namespace that does not exist.
    if (namespace !== undefined)
      await this.#namespaces?.admit(served, objectKey({ namespace, name: name ?? generateName ?? '' }), false)
    const object = newObject(version, client, namespace, managedFields)
    const changed = await mutatedBy(admission, version, client, object, undefined)
    if (namespace !== undefined) checkNamespace(namespace, changed.meta)
    return { admission, client: changed }
  }
}

/** Returns a new object as mutating webhooks see it, with its defaults. */
function newObject(
  version: ServedVersion,
  { meta, content }: ClientObject,
  namespace: string | undefined,
  managedFields: BareMeta['managedFields'],
): AdmittedObject {
  const { name, generateName, labels, annotations, ownerReferences, finalizers } = meta
  const given = { name, generateName, namespace, labels, annotations, ownerReferences, finalizers }
  const metadata = Object.fromEntries(
    Object.entries({ ...given, managedFields }).filter(([, value]) => value !== undefined),
  )
  return version.schemas.withDefaults({ ...composeObject(version, noMeta, { ...content }), metadata })
}

const noMeta: BareMeta = Object.freeze({ name: '', uid: '', creationTimestamp: '' })

interface AdmittedUpdate {
  readonly admission: WriteAdmission
  readonly served: ServedModel
  readonly version: ServedVersion
  readonly current: Current
  readonly seen: StoredView
  readonly client: ClientObject
  readonly scope: Scope
  readonly options: WriteOptions
  readonly reservedDomain: string
}

/**
 * Decides an update with the admission of the write. Does not ask about a write that only takes away finalizers,
 * because nothing may refuse it.
 * @param draft `sent` is the object with its defaults before the changes of webhooks, undefined if none were asked
 */
export async function admitUpdate(
  { admission, served, version, current, seen, client, scope, options, reservedDomain }: AdmittedUpdate,
  draft: (client: ClientObject, sent: BareObject | undefined) => Promise<Decision | undefined>,
): Promise<Decision | undefined> {
  const { object } = current
  const owned = ownedMetadata(version, current, seen)
  const metadata = metadataAfter(served, owned, client.meta, scope, options, reservedDomain)
  const next = composeObject(version, metadata, contentOf(version, seen.view, client.content, scope))
  const difference = differenceOf(next, seen.view)
  if (difference.finalizers && onlyTakesAwayFinalizers(next, seen.view, difference))
    return draft(client, undefined)
  const sent = version.schemas.withDefaults(next)
  const decision = await draft(await mutatedBy(admission, version, client, sent, current), sent)
  await admission.validate(decision?.draft.object ?? object, current)
  return decision
}

/** Decides a deletion with the admission of the write, also of an object that is being deleted, as Kubernetes does. */
export async function admitDeletion(
  admission: WriteAdmission,
  current: Current,
  decide: () => Decision | undefined,
): Promise<Decision | undefined> {
  // What the server never deletes is refused before.
  const decision = decide()
  await admission.mutate(undefined, current)
  await admission.validate(undefined, current)
  return decision
}

/**
 * The uid and the managed fields stay those of the client. A webhook may set the version that is to be changed, as in
 * Kubernetes.
 */
async function mutatedBy(
  admission: WriteAdmission,
  version: ServedVersion,
  client: ClientObject,
  sent: AdmittedObject,
  from: AdmittedFrom | undefined,
): Promise<ClientObject> {
  const changed = await admission.mutate(sent, from)
  if (changed === undefined || changed === sent) return client
  const { meta, content, causes, warnings } = readClientObject(version, changed)
  const { uid, version: given, managedFields } = client.meta
  const { resourceVersion } = from === undefined ? client.meta : meta
  return {
    meta: { ...meta, uid, version: given, resourceVersion, managedFields },
    content,
    causes,
    warnings: [...client.warnings, ...warnings],
  }
}
