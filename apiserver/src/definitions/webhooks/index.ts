/**
 * Calls webhooks for admission and for conversions.
 *
 * - A webhook is called over HTTPS, and its certificate is verified.
 * - A call ends in time, and a response is bounded, whatever the webhook does.
 * - Requests go nowhere that the operator has not allowed.
 */
export { type ClientConfig, checkClientConfig, clientConfigOf } from './client-config.ts'
export { checkReviewVersions, hasKnownReview, knownReviews } from './review-versions.ts'
export { WebhookClient, webhookDefaults } from './webhook-client.ts'
export { WebhookCallError } from './webhook-error.ts'
export { readTarget, type WebhookServices, type WebhookTarget } from './webhook-target.ts'
