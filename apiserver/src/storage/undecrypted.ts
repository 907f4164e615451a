import { type KeyValue, UndecryptableError } from './contract.ts'

/**
 * What every encrypted value in the store begins with, as in Kubernetes. Nothing else begins so: objects begin with
 * `{`.
 */
export const encryptedPrefix = 'k8s:enc:'

/** Returns why a value is still encrypted, or undefined if it is not. */
export function undecrypted({
  value,
  failure,
}: Pick<KeyValue, 'value' | 'failure'>): UndecryptableError | undefined {
  if (failure !== undefined) return failure
  // 0x7b is `{`. Almost every value is an object in the clear, which shows at its first byte.
  if (value[0] === 0x7b || !isEncrypted(value)) return undefined
  return new UndecryptableError('is encrypted, and there is no --encryption-provider-config')
}

export function isEncrypted(value: Buffer): boolean {
  return value.toString('latin1', 0, encryptedPrefix.length) === encryptedPrefix
}
