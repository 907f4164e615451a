/**
 * The conversion strategy Webhook of definitions.
 *
 * - A webhook is asked once for an object and a version, many objects at a time, and its responses are checked as in Kubernetes.
 * - What it has converted is remembered within a bound. What it could not convert is asked for again.
 * - Everybody who waits for the same object shares one request.
 */
export { ConversionMemory } from './conversion-memory.ts'
export { type ConverterParts, converterOf } from './converter-of.ts'
export type { ConversionObserver } from './webhook-converter.ts'
