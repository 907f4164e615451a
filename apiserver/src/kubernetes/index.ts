/**
 * What only Kubernetes' clients ask for: discovery, objects as Tables or as their metadata alone, protobuf bodies, and
 * built-in kinds.
 *
 * - A view turns the wire JSON of an object into another form, and knows neither requests nor caches. Clients that ask
 *   for no view pay nothing.
 * - A built-in kind is a model with rules of its own. The rooms below know none of them: the registry is given a
 *   `Namespaces`, and everything else of a kind is in its model.
 *
 * A namespace is removed only when it is empty, and no object is ever created in a namespace that does not exist.
 */
export { accessReviews } from './access-reviews.ts'
export { type AggregatedVersion, aggregatedGroup, aggregatedVersions } from './aggregated-discovery.ts'
export { authenticationReviews } from './authentication-reviews.ts'
export {
  decodeProtobuf,
  isKubernetesGroup,
  type KindName,
  loadMergeType,
  loadPatchKeywords,
  loadProtobufResponses,
  type PatchKeywords,
} from './built-in-formats.ts'
export { Discovery, type DiscoveryDocument } from './discovery.ts'
export { type Fields, recordOf, recordsOf, textOf, textsOf } from './fields.ts'
export type { BuiltInKind } from './kinds/built-in-kind.ts'
export { ageColumn } from './kinds/columns.ts'
export { type BuiltInKinds, builtInKinds } from './kinds/index.ts'
export { permanentNamespaces } from './kinds/namespace.ts'
export { KnownNamespaces } from './known-namespaces.ts'
export { problemsOfSelector, readSelector, textMapOf } from './label-selector.ts'
export { protobufType, strategicMergeType } from './media-types.ts'
export { NamespaceLifecycle, namespaceLifecycleDefaults } from './namespace-lifecycle.ts'
export type { ListForm, ObjectView } from './object-view.ts'
export { findObjectView } from './object-views.ts'
export { BoundedNamespaces, QuotaBounds, QuotaStatus, QuotaUsage } from './quota/index.ts'
export { followRoles, type RbacKinds, RoleBounds, RoleKeeper, rbacKinds } from './rbac/index.ts'
export * from './service-accounts/index.ts'
export { ViewSink } from './view-sink.ts'
