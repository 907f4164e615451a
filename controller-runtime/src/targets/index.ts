/**
 * The policy of plugins that send requests to URLs from objects. Without it, a user who may write such an object could
 * reach services that trust the server's network: those on the same machine, and the metadata service that gives a
 * cloud machine its credentials. Operators set the same settings for every such plugin.
 */
export { TargetDeniedError, TargetPolicy } from './target-policy.ts'
export { type TargetSettings, targetSettings } from './target-settings.ts'
