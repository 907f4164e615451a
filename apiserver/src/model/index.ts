/**
 * A kind as the server knows it: its compiled schema, index specs and stored form, and the reading of JSON and YAML.
 *
 * - A violation names its field as Kubernetes does. All violations of an object are found together, up to a bound.
 * - A decoded value is exactly what the text says: numbers keep their value or are refused.
 * - Nothing here knows requests, caches or stores.
 */
export {
  compareCodePoints,
  compareUnits,
  echo,
  echoName,
  ordersByUnit,
  quote,
  shorten,
} from '@setpoint/controller-runtime/internal'
export * from './cel-module.ts'
export { ConversionError } from './conversion-error.ts'
export * from './converter.ts'
export * from './decode.ts'
export * from './deep-equal.ts'
export type { DefinedKind, DefinedVersion, ScalePaths } from './defined-kind.ts'
export { checkAnnotationKeys, problemsOfEmbedded } from './embedded-metadata.ts'
export * from './field-path.ts'
export * from './index-set.ts'
export { countParts, countValues } from './json-text.ts'
export * from './json-value.ts'
export type { ComputedColumn, KindRules, Scope } from './kind-rules.ts'
export { kubernetesFormat } from './kubernetes-formats.ts'
export * from './model-hooks.ts'
export * from './model-registry.ts'
export * from './object-limits.ts'
export * from './packed-values.ts'
export { Pattern, PatternError, patternDefaults } from './pattern.ts'
export { Quantity } from './quantity.ts'
export * from './reservations.ts'
export * from './review.ts'
export * from './rule-loader.ts'
export { canonical } from './schema-compiler.ts'
export { fillDefaults } from './schema-defaults.ts'
export { followPath } from './schema-path.ts'
export * from './schema-validator.ts'
export * from './served-model.ts'
export { type CompileSchemas, ServedVersion } from './served-version.ts'
export * from './stored-object.ts'
export * from './stored-version.ts'
export * from './text-position.ts'
export * from './unique-index-id.ts'
export { valueAt } from './violation.ts'
