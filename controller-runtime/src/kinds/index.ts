/**
 * Kinds of Kubernetes that the server has built in, for plugins and clients. Each is a model and the type of its
 * objects, under one name. The server adds rules and table columns of its own.
 */
export { ConfigMap } from './config-map.ts'
export { Event } from './event.ts'
export { Lease } from './lease.ts'
export { Namespace } from './namespace.ts'
export { Secret } from './secret.ts'
export { ServiceAccount } from './service-account.ts'
