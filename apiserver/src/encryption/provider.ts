/** What may take a moment: a local key encrypts and decrypts at once, a key service has to be asked. */
export type MaybeLater<T> = T | Promise<T>

/** Encrypts and decrypts values with one key. */
export interface Provider {
  /**
   * What its values in the store begin with: as in Kubernetes, the algorithm and the name of the key. '' in the clear.
   */
  readonly prefix: string

  /**
   * Returns the value for the store, with the prefix.
   * @param key where the value is stored; the value can be read at no other key
   * @throws KeyUnavailableError
   */
  encrypt(key: string, value: Uint8Array): MaybeLater<Buffer>

  /**
   * Decrypts a value that begins with the prefix.
   * @throws UndecryptableError, KeyUnavailableError
   */
  decrypt(key: string, stored: Buffer): MaybeLater<Buffer>

  /** Returns true if `encrypt` would use the same key for a value that begins with the prefix. */
  isCurrent(stored: Buffer): MaybeLater<boolean>

  close(): void
}
