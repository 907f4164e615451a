/**
 * The storage on etcd 3.4 and newer, which several servers can share.
 *
 * It uses the package `etcd3` for connections, TLS and messages (`client.ts`), with deadlines and a login of its own
 * (`connection.ts`), and its own watcher. Each server uses one member at a time and moves on when it fails. If the
 * response to a transaction is lost, the storage looks up its outcome (`outcome.ts`), so "refused" and "unavailable"
 * always mean that nothing happened.
 */
export { etcdDefaults } from './defaults.ts'
export {
  type CallObserver,
  type EtcdStorageOptions,
  openEtcdStorage,
  type StorageOperation,
} from './etcd-storage.ts'
export { replaceEtcdStore } from './replace-store.ts'
