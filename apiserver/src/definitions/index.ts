/**
 * Prints kinds as Kubernetes' CustomResourceDefinitions, so that they can move between Setpoint and a cluster.
 *
 * - A definition says all that Kubernetes has a word for. What is left, such as functions, is said in notes.
 */
export * from './definition.ts'
export { definitionKind } from './kind/index.ts'
