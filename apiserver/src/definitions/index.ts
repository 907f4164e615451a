/**
 * Kinds without code: the second source of served models, beside plugins.
 *
 * - `kind` is CustomResourceDefinition itself, and the rules of definitions. `Definitions` serves their kinds.
 * - Where Kubernetes and Setpoint's plugins differ, Kubernetes decides for the kinds of definitions.
 * - `definitionOf` prints a plugin's model as a definition. It says all that Kubernetes has a word for, and notes what is left.
 */
export { type AdmissionObserver, AdmissionRoom } from './admission/index.ts'
export * from './definition.ts'
export * from './definitions.ts'
export { definitionKind } from './kind/index.ts'
export { WebhookClient, type WebhookServices } from './webhooks/index.ts'
