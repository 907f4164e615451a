import { type BareObject, converting, type ServedVersion } from '../../model/index.ts'
import type {
  AdmissionOperation,
  AdmissionRequest,
  AdmittedFrom,
  AdmittedObject,
  SubresourceForm,
} from '../../registry/index.ts'

/** A resource of the API, or a kind. */
export interface GroupVersion {
  readonly group: string
  readonly version: string
}

/** The group that namespaces are in, and their plural. */
const namespacesResource = '/namespaces'

/** An object as policies and webhooks see it: with its version in the metadata, like any object of the API in Kubernetes. */
export interface ShownObject {
  readonly metadata: Readonly<Record<string, unknown>>
  readonly [field: string]: unknown
}

/** The object of a write in one version, before and after. */
export interface ShownObjects {
  /** Undefined for a deletion. */
  readonly object: ShownObject | undefined
  /** Undefined for a creation. */
  readonly old: ShownObject | undefined
}

/**
 * What a write is about. The objects can be had in every version of the kind; each is converted once.
 *
 * A conversion that fails does not stand in the way of a deletion: the object is then shown as it is stored.
 */
export class AdmissionAttributes {
  readonly request: AdmissionRequest
  readonly operation: AdmissionOperation
  /** The version of the request. */
  readonly version: ServedVersion
  readonly resource: string
  /** Empty for a write to the object itself. */
  readonly subresource: string
  /** Empty while the server has not chosen the name. */
  readonly name: string
  /** Empty for a cluster-scoped object. A namespace is in itself, as in Kubernetes. */
  readonly namespace: string
  readonly isNamespace: boolean
  /** Undefined for a deletion. */
  readonly object: AdmittedObject | undefined
  /** Undefined for a creation. */
  readonly from: AdmittedFrom | undefined
  readonly #shown = new Map<string, ShownObjects>()

  constructor(request: AdmissionRequest, object: AdmittedObject | undefined, from: AdmittedFrom | undefined) {
    const { served, operation, scope, options } = request
    this.request = request
    this.operation = operation
    this.version = options.version ?? served.hub
    this.resource = served.model.plural
    this.subresource = options.form?.subresource ?? (scope === 'object' ? '' : scope)
    this.name = request.name ?? (operation === 'CREATE' ? (object?.metadata.name ?? '') : '')
    this.isNamespace = served.resource === namespacesResource
    this.namespace = this.isNamespace ? this.name : (request.namespace ?? '')
    this.object = object
    this.from = from
  }

  /** Set if the objects of the request are of another kind. */
  get form(): SubresourceForm | undefined {
    return this.request.options.form
  }

  /** The versions of the kind, which count as equivalent. */
  get versions(): readonly ServedVersion[] {
    return this.request.served.versions
  }

  /** Returns the object and the old one in a version. @throws ConversionError */
  async in(version: ServedVersion): Promise<ShownObjects> {
    const known = this.#shown.get(version.apiVersion)
    if (known !== undefined) return known
    const { from } = this
    const revision = from === undefined ? undefined : String(from.revision)
    const shown = {
      object: this.object && (await this.#show(this.object, version, revision)),
      old: from && (await this.#show(from.object, version, revision)),
    }
    this.#shown.set(version.apiVersion, shown)
    return shown
  }

  /** Returns the same with another object, which mutating webhooks have made. */
  with(object: AdmittedObject): AdmissionAttributes {
    return new AdmissionAttributes(this.request, object, this.from)
  }

  /** The labels of what the request is about, before and after. */
  get labels(): readonly Readonly<Record<string, string>>[] {
    const { object, from } = this
    const states = [object, from?.object].filter(state => state !== undefined)
    return states.map(({ metadata }) => (this.form === undefined ? (metadata.labels ?? {}) : {}))
  }

  /** What a subresource shows depends on the version of the request only. */
  async #show(
    object: AdmittedObject,
    version: ServedVersion,
    revision: string | undefined,
  ): Promise<ShownObject> {
    const { form } = this
    const shown = show(await this.#convert(object, form === undefined ? version : this.version), revision)
    return form === undefined ? shown : form.show(shown)
  }

  async #convert(object: AdmittedObject, version: ServedVersion): Promise<AdmittedObject> {
    if (object.apiVersion === version.apiVersion) return object
    try {
      return await convert(object, this.versions, version)
    } catch (error) {
      if (this.operation === 'DELETE') return object
      throw error
    }
  }
}

/** Converts an object between two versions of its kind. Its metadata stay as they are. @throws ConversionError */
export async function convert(
  object: AdmittedObject,
  versions: readonly ServedVersion[],
  to: ServedVersion,
): Promise<AdmittedObject> {
  const from = versions.find(({ apiVersion }) => apiVersion === object.apiVersion)
  if (from === undefined || from === to) return object
  const { metadata } = object
  const bare: BareObject = { spec: undefined, ...object, metadata: { ...noMeta, ...metadata } }
  if (object.spec === undefined) delete bare.spec
  return { ...(await converting(() => to.fromHub(from.toHub(bare)))), metadata }
}

const noMeta = Object.freeze({ name: '', uid: '', creationTimestamp: '' })

function show(
  { metadata, ...object }: AdmittedObject,
  resourceVersion: string | undefined,
): ShownObject & AdmittedObject {
  const { apiVersion, kind, ...content } = object
  return {
    apiVersion,
    kind,
    metadata: { ...metadata, ...(resourceVersion && { resourceVersion }) },
    ...content,
  }
}
