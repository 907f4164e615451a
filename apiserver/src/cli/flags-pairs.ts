import { createSecureContext } from 'node:tls'
import { errorMessage } from '@setpoint/controller-runtime/api'
import type { Flag } from './flag.ts'
import type { Settings } from './flags-settings.ts'
import { UsageError } from './flags-values.ts'

/** @throws UsageError if only one of two flags is given */
export function bothOrNeither(settings: Settings, one: Flag, other: Flag): void {
  if ((settings.origin(one) === undefined) === (settings.origin(other) === undefined)) return
  const alone = settings.origin(one) ?? settings.origin(other)
  throw new UsageError(
    `--${one.name} and --${other.name} are given together or not at all; only ${alone} is given`,
  )
}

/** @throws UsageError if a certificate and a key are incomplete or do not belong together */
export function checkKeyPair(
  settings: Settings,
  cert: { readonly flag: Flag; readonly text: string },
  key: { readonly flag: Flag; readonly text: string },
): void {
  try {
    createSecureContext({ cert: cert.text, key: key.text })
  } catch (error) {
    throw new UsageError(
      `${settings.origin(cert.flag)} and ${settings.origin(key.flag)} cannot be used together: ${errorMessage(error)}`,
      { cause: error },
    )
  }
}
