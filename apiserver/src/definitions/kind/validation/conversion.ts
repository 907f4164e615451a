import type { Findings } from '../../findings.ts'
import { checkClientConfig, checkReviewVersions } from '../../webhooks/index.ts'
import type { Conversion } from './definition.ts'

const place = 'spec.conversion'
const strategies = ['None', 'Webhook']

/** What is not demanded of a conversion because the stored one does not have it either. */
export interface ConversionLeniency {
  readonly allowsInvalidBundle: boolean
  readonly allowsUnknownReviews: boolean
}

/** Checks a conversion. Its places are those of Kubernetes' internal type, which has no `webhook` around the parts. */
export function checkConversion(
  { strategy, webhook }: Conversion,
  { allowsInvalidBundle, allowsUnknownReviews }: ConversionLeniency,
  found: Findings,
): void {
  const { clientConfig, conversionReviewVersions: reviews = [] } = webhook ?? {}
  if (strategy === '') found.required(`${place}.strategy`)
  else if (!strategies.includes(strategy)) found.unsupported(`${place}.strategy`, strategy, strategies)
  if (strategy !== 'Webhook') {
    const why = 'must not be set unless the strategy is Webhook'
    if (clientConfig !== undefined) found.forbidden(`${place}.webhookClientConfig`, why)
    if (reviews.length > 0) found.forbidden(`${place}.conversionReviewVersions`, why)
    return
  }
  const at = `${place}.webhookClientConfig`
  if (clientConfig === undefined) found.required(at, 'is required when the strategy is Webhook')
  else {
    const { caBundle = '' } = clientConfig
    checkClientConfig(clientConfig, at, found)
    if (caBundle !== '' && !allowsInvalidBundle && !isBundle(caBundle))
      found.invalid(`${at}.caBundle`, 'must be certificates in PEM, in base64')
  }
  checkReviewVersions(reviews, `${place}.conversionReviewVersions`, allowsUnknownReviews, found)
}

/**
 * Returns true for base64 of text with a certificate in PEM. Looks at the frame of the certificate only, because to parse one
 * with a crafted key could take a second.
 */
export function isBundle(caBundle: string): boolean {
  const text = Buffer.from(caBundle, 'base64').toString('latin1')
  const blocks = text.matchAll(/-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]*)-----END CERTIFICATE-----/g)
  for (const [, block = ''] of blocks) if (isSequence(Buffer.from(block, 'base64'))) return true
  return false
}

/** Returns true for a DER sequence of more than 128 bytes that is as long as it says and begins with another. */
function isSequence(der: Buffer): boolean {
  const lengthBytes = der.length > 4 && der[0] === 0x30 && der[1] !== undefined ? der[1] - 0x80 : 0
  if (lengthBytes < 1 || lengthBytes > 3) return false
  return der.readUIntBE(2, lengthBytes) === der.length - 2 - lengthBytes && der[2 + lengthBytes] === 0x30
}
