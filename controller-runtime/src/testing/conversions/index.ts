/** Checks of the conversions between the versions of a kind, with objects generated from its schemas. */
export {
  ConversionCheckError,
  type ConversionCheckOptions,
  checkConversions,
  conversionCheckDefaults,
} from './check-conversions.ts'
export type { SampleRandom } from './random.ts'
export { SampleError, type SampleValues } from './sample.ts'
