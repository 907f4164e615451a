/** The path of an etcd server binary. @throws Error that says what to set, if there is none */
export function findEtcd(): Promise<string>
/** The path of a binary of etcd 3.5. @throws Error that says what to set, if there is none */
export function findNewerEtcd(): Promise<string>
/** @throws Error saying what to set, if there is no etcdutl */
export function findEtcdutl(): Promise<string>
/** The path of an etcdctl 3.5. @throws Error that says what to set, if there is none */
export function findEtcdctl(): Promise<string>
