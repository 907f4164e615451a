import type { Logger } from '@setpoint/controller-runtime'
import type { Encryption } from '../encryption/index.ts'
import { type WatchedFiles, warnIfReadableByAll } from '../security/index.ts'
import type { Storage } from '../storage/index.ts'
import type { NamedText } from './flags-files.ts'

/** Loads the ciphers and the client of key services only if a store is encrypted. */
export async function openEncryption({ text }: NamedText): Promise<Encryption> {
  const { Encryption, readEncryptionConfiguration } = await import('../encryption/index.ts')
  return new Encryption(readEncryptionConfiguration(text))
}

/** Returns a store whose values are encrypted in this one. It closes both. */
export async function encrypted(storage: Storage, encryption: Encryption): Promise<Storage> {
  const { EncryptedStorage } = await import('../encryption/index.ts')
  return new EncryptedStorage(storage, encryption)
}

/**
 * Uses the keys of the file as they change. Reports an unusable file and keeps the old keys.
 * @param parts.reloaded called when other keys are in use: what could not be decrypted may be readable now
 */
export async function reloadEncryption(
  encryption: Encryption,
  { path, text }: NamedText,
  parts: { readonly files: WatchedFiles; readonly log: Logger; readonly reloaded: () => void },
): Promise<void> {
  const { readEncryptionConfiguration } = await import('../encryption/index.ts')
  const { files, log, reloaded } = parts
  warnIfReadableByAll(path, log)
  files.follow('encryption-provider-config', {
    paths: [path],
    known: [text],
    failed: error =>
      log.error({ path, err: error }, 'failed to reload the encryption configuration, keeping the old one'),
    changed: ([changed = '']) => {
      encryption.use(readEncryptionConfiguration(changed))
      log.info({ path }, 'reloaded the encryption configuration')
      reloaded()
    },
  })
}
