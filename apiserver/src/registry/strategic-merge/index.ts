/**
 * Strategic merge patches, as Kubernetes defines them: merge patches that know which lists of a type are merged by
 * item, with directives to delete, replace and order. The work of a patch is bounded, and it changes nothing but its
 * result.
 */
export type { MergeField, MergeType } from './merge-type.ts'
export { applyStrategicMerge, strategicMergeDefaults } from './strategic-merge.ts'
