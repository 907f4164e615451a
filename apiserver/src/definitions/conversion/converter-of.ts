import { createHash } from 'node:crypto'
import type { Logger } from '@setpoint/controller-runtime'
import { recordOf, textsOf } from '../../kubernetes/index.ts'
import type { Converter } from '../../model/index.ts'
import type { StoredDefinition } from '../stored-definition.ts'
import { readTarget, type WebhookClient, type WebhookServices } from '../webhooks/index.ts'
import type { ConversionMemory } from './conversion-memory.ts'
import { type ConversionObserver, WebhookConverter } from './webhook-converter.ts'

/** What the converters of all definitions share. */
export interface ConverterParts {
  readonly client: Pick<WebhookClient, 'post'>
  readonly services: WebhookServices
  readonly memory: ConversionMemory
  readonly log: Logger
  readonly observe: ConversionObserver
}

/** Returns the converter of a definition; undefined for the strategy None. */
export function converterOf(
  { name, uid, conversion }: Pick<StoredDefinition, 'name' | 'uid' | 'conversion'>,
  { services, ...parts }: ConverterParts,
): Converter | undefined {
  if (conversion.strategy !== 'Webhook') return undefined
  const { clientConfig, conversionReviewVersions } = recordOf(conversion.webhook)
  return new WebhookConverter(
    {
      name,
      id: createHash('sha256')
        .update(JSON.stringify([uid, conversion]))
        .digest('base64'),
      target: () => readTarget(recordOf(clientConfig), services),
      reviewVersions: textsOf(conversionReviewVersions),
    },
    parts,
  )
}
