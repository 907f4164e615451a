const prefix = 'system:serviceaccount:'

/** The name and the namespace of a service account. */
export interface ServiceAccountName {
  readonly namespace: string
  readonly name: string
}

/** Returns the user name of a service account, as in Kubernetes. */
export function serviceAccountUser({ namespace, name }: ServiceAccountName): string {
  return `${prefix}${namespace}:${name}`
}

export function isServiceAccountUser(user: string): boolean {
  return user.startsWith(prefix)
}

/** Returns the service account with this user name, or undefined for other users. */
export function serviceAccountOf(user: string): ServiceAccountName | undefined {
  if (!isServiceAccountUser(user)) return undefined
  const [namespace, name, ...rest] = user.slice(prefix.length).split(':')
  return namespace && name && rest.length === 0 ? { namespace, name } : undefined
}
