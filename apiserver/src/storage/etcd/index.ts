/**
 * The storage over etcd (3.4 and newer), for several servers on one store.
 *
 * `etcd3` gives the protocol, channels and TLS; calls and watches are our own (`connection.ts`, `watcher.ts`), because
 * theirs repeat writes and lose events. Each server follows one endpoint at a time and moves on when it fails. An
 * answer that was lost is looked up in the store's history (`outcome.ts`), so that "refused" and "unavailable" always
 * mean that nothing happened.
 */
export { etcdDefaults } from './defaults.ts'
export { type EtcdStorageOptions, openEtcdStorage } from './etcd-storage.ts'
