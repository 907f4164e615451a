/** The path of an etcd server binary. @throws Error that says what to set, when there is none to be had */
export function findEtcd(): Promise<string>
