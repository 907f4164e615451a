/**
 * The storage over etcd (3.4 and newer), for several servers on one store.
 *
 * gRPC is spoken by ourselves over Node's HTTP/2 (`channel.ts`), with the few messages that are needed (`messages.ts`):
 * of a call that fails it is known whether it was sent, none is repeated behind our back, and it costs a third of
 * `@grpc/grpc-js`. Each server follows one endpoint at a time and moves on when it fails. An answer that was lost is
 * looked up in the store's history (`outcome.ts`), so that "refused" and "unavailable" always mean that nothing happened.
 */
export { etcdDefaults } from './defaults.ts'
export { type EtcdStorageOptions, openEtcdStorage } from './etcd-storage.ts'
