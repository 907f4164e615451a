/** A link from a dependent to the object that owns it, in Kubernetes' shape. */
export interface OwnerReference {
  apiVersion: string
  kind: string
  name: string
  uid: string
  controller?: boolean
  blockOwnerDeletion?: boolean
}

/** A set of fields in Kubernetes' format: the keys are `f:<field>`, `k:<keys>`, `v:<value>` and `.`. */
export interface FieldsV1 {
  readonly [element: string]: FieldsV1
}

/** The fields that one manager owns, in Kubernetes' shape. */
export interface ManagedFieldsEntry {
  readonly manager: string
  /** `Apply` for server-side apply, `Update` for all other writes. */
  readonly operation: 'Apply' | 'Update'
  /** The version whose fields are meant. */
  readonly apiVersion: string
  readonly subresource?: string
  /** RFC 3339: when the manager last changed the object. */
  readonly time?: string
  readonly fieldsType: 'FieldsV1'
  readonly fieldsV1: FieldsV1
}

/**
 * The metadata of a stored object. Only the server sets the fields marked "server". The lists are read-only, so that a
 * function that takes an object of a kind without lists takes a frozen one too; to change a list, assign another.
 */
export interface ObjectMeta {
  name: string
  /** The namespace of an object whose kind is namespaced; otherwise absent. */
  namespace?: string
  /** If `name` is absent, the server generates a name with this prefix. */
  generateName?: string
  /** Server: a UUID that distinguishes an object from a later one of the same name. */
  uid: string
  /** Server: decimal revision of the last write; opaque but comparable with `compareVersions`. */
  version: string
  /** Server: always equal to `version`, for Kubernetes clients. */
  resourceVersion: string
  /**
   * Server: 1 at creation, +1 for every change of the desired state and at the start of the deletion. The built-in
   * kinds of Kubernetes have none.
   */
  generation?: number
  /** Server: RFC 3339 UTC with milliseconds. */
  creationTimestamp: string
  /** Server: RFC 3339; set when the deletion starts. */
  deletionTimestamp?: string
  finalizers?: readonly string[]
  ownerReferences?: readonly OwnerReference[]
  labels?: Record<string, string>
  annotations?: Record<string, string>
  /** Server: the owners of the fields, from the first server-side apply on. */
  managedFields?: readonly ManagedFieldsEntry[]
}

/** The content of an object as a writer sends it. Fields with a default may be absent. */
export interface ObjectInput<Spec = unknown, Status = unknown> {
  readonly spec: Spec
  readonly status: Status
}

/** A key that no object has. It connects the types of reading and writing. */
declare const input: unique symbol

/** An object as the server returns it. `Input` is a type only: the content as writers send it. */
export interface ApiObject<
  Spec = unknown,
  Status = unknown,
  Input extends ObjectInput = ObjectInput<Spec, Status>,
> {
  apiVersion: string
  kind: string
  metadata: ObjectMeta
  spec: Spec
  status?: Status
  readonly [input]?: Input
}

/** The `spec` of an object of type T as a writer sends it. */
export type SpecInput<T extends ApiObject> = NonNullable<T[typeof input]>['spec']
/** The `status` of an object of type T as a writer sends it. */
export type StatusInput<T extends ApiObject> = NonNullable<T[typeof input]>['status']

/** An object as a client sends it for creation. The server fills in the rest. */
export interface NewObject<Spec = unknown, Status = unknown> {
  apiVersion?: string
  kind?: string
  metadata: Partial<ObjectMeta>
  spec: Spec
  status?: Status
}

/** The response to a list request. With `limit` the page fields are absent. */
export interface ObjectList<T = ApiObject> {
  apiVersion: string
  kind: string
  metadata: { version: string; resourceVersion: string; continue?: string; remainingItemCount?: number }
  page?: number
  size?: number
  total?: number
  totalPages?: number
  first?: boolean
  last?: boolean
  hasNext?: boolean
  hasPrevious?: boolean
  items: T[]
}

/** Marks the BOOKMARK that ends the initial events of a watch. */
export const initialEventsEndAnnotation = 'k8s.io/initial-events-end'
