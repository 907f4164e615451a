import { type Fields, recordOf, textOf, textsOf } from '../../kubernetes/index.ts'
import { type ClientConfig, clientConfigOf, knownReviews } from '../webhooks/index.ts'
import { isIgnoring } from './compiled-policy.ts'
import { MatchConditions } from './conditions.ts'
import { readRules } from './rules.ts'
import { readSelection, type Selection } from './selection.ts'

/** A webhook of a configuration. */
export interface Webhook {
  /** The name of its configuration. */
  readonly configuration: string
  readonly name: string
  readonly selection: Selection
  readonly conditions: MatchConditions
  /** `failurePolicy: Ignore` */
  readonly ignoresFailures: boolean
  readonly timeoutMs: number
  /** True if it may be called in a dry run. */
  readonly takesDryRuns: boolean
  /** The version of `AdmissionReview` that it gets; undefined if it understands none that the server knows. */
  readonly reviewVersion: string | undefined
  readonly clientConfig: ClientConfig
  /** `reinvocationPolicy: IfNeeded` */
  readonly isReinvoked: boolean
}

export function readWebhook(configuration: string, fields: Fields): Webhook {
  const { timeoutSeconds, sideEffects } = fields
  const versions = textsOf(fields.admissionReviewVersions)
  return {
    configuration,
    name: textOf(fields.name),
    selection: readSelection(fields, readRules(fields.rules)),
    conditions: new MatchConditions(fields.matchConditions, false),
    ignoresFailures: isIgnoring(fields),
    timeoutMs: (typeof timeoutSeconds === 'number' ? timeoutSeconds : 10) * 1000,
    takesDryRuns: sideEffects === 'None' || sideEffects === 'NoneOnDryRun',
    reviewVersion: versions.find(version => knownReviews.includes(version)),
    clientConfig: clientConfigOf(recordOf(fields.clientConfig)),
    isReinvoked: fields.reinvocationPolicy === 'IfNeeded',
  }
}
