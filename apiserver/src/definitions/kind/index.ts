/**
 * The kind `CustomResourceDefinition` itself: its fields, their defaults, and what a definition must be like.
 *
 * - A definition is accepted and refused as by a kube-apiserver 1.34: with the same status, reason and fields of causes.
 * - Everything here is a pure function of a definition and the stored one. How definitions are served is not known here.
 */
export { definitionKind } from './definition-kind.ts'
export { cleanupFinalizer } from './deletion.ts'
export { type DeclaredIndex, indexesAnnotation, parseIndexes } from './indexes.ts'
