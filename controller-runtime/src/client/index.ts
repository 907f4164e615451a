/**
 * Access to a server: a typed `Client` over a `Transport`. Transports move text, over HTTP or inside the server's own
 * process; the client encodes and decodes objects. It keeps no cache.
 */
export * from './bodies.ts'
export * from './client.ts'
export { type ConflictRetryOptions, conflictRetryDefaults, retryOnConflict } from './conflict-retry.ts'
export { type ClientOptions, callerOf, clientDefaults, createClient } from './create-client.ts'
export { MalformedEventError } from './decode.ts'
export { type Draft, type Mutate, mutableCopy } from './draft.ts'
export { HttpTransport, type HttpTransportOptions, httpTransportDefaults } from './http-transport.ts'
export { RetryingTransport, type RetryingTransportOptions, retryDefaults } from './retrying-transport.ts'
export * from './transport.ts'
