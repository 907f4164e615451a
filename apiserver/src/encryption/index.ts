/**
 * Encryption at rest, in the file format of Kubernetes. `EncryptedStorage` lies between a store and the rooms above it:
 * they see values in the clear, and the store holds ciphertext, also in its history and in backups of it.
 *
 * Promises: a value that cannot be decrypted fails alone, with the reason, and can be deleted. A value can be read at
 * no other key than the one it was written to. Every wait for a key service has a bound.
 */
export * from './configuration.ts'
export * from './encrypted-storage.ts'
export * from './encryption.ts'
export * from './rewrite.ts'
