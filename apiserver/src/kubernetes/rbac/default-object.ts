/** A role, a binding or a service account that the server creates. */
export interface DefaultObject {
  /** Undefined for a cluster-scoped kind. */
  readonly namespace?: string
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  /** The fields besides apiVersion, kind and metadata. */
  readonly content: Readonly<Record<string, unknown>>
  /** Whether missing parts of an existing object are added. Default: if its annotation `autoupdate` allows it. */
  readonly completed?: 'always' | 'never'
}

/** The label of the default roles and bindings, as in Kubernetes. */
export const bootstrappingLabels = Object.freeze({ 'kubernetes.io/bootstrapping': 'rbac-defaults' })
