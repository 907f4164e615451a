/** A rule of a role, as in `rbac.authorization.k8s.io/v1`. */
export interface PolicyRule {
  readonly verbs: readonly string[]
  readonly apiGroups?: readonly string[]
  /** Plurals, `<plural>/<subresource>`, a star for everything, or a star, a slash and a subresource. */
  readonly resources?: readonly string[]
  /** Empty or absent: all names. */
  readonly resourceNames?: readonly string[]
  /** Paths, or prefixes that end with `*`. Only a ClusterRole bound by a ClusterRoleBinding grants them. */
  readonly nonResourceURLs?: readonly string[]
}
