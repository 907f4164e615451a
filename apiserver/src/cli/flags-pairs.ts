import { errorMessage } from '@setpoint/controller-runtime/api'
import type { Flag, ValueFlag } from './flag.ts'
import type { NamedText } from './flags-files.ts'
import type { Settings } from './flags-settings.ts'
import { UsageError } from './flags-values.ts'
import { checkKeyPair } from './key-pair.ts'

/** @throws UsageError if only one of two flags is given */
export function bothOrNeither(settings: Settings, one: Flag, other: Flag): void {
  if ((settings.origin(one) === undefined) === (settings.origin(other) === undefined)) return
  const alone = settings.origin(one) ?? settings.origin(other)
  throw new UsageError(
    `--${one.name} and --${other.name} are given together or not at all; only ${alone} is given`,
  )
}

/**
 * Returns a certificate and its key, or undefined if neither is given.
 * @throws UsageError if only one is given, or they do not belong together
 */
export function keyPair(
  settings: Settings,
  certFlag: ValueFlag<NamedText>,
  keyFlag: ValueFlag<NamedText>,
): { readonly cert: NamedText; readonly key: NamedText } | undefined {
  bothOrNeither(settings, certFlag, keyFlag)
  const cert = settings.optional(certFlag)
  const key = settings.optional(keyFlag)
  if (cert === undefined || key === undefined) return undefined
  try {
    checkKeyPair({ cert: cert.text, key: key.text })
  } catch (error) {
    throw new UsageError(
      `${settings.origin(certFlag)} and ${settings.origin(keyFlag)} cannot be used together: ${errorMessage(error)}`,
      { cause: error },
    )
  }
  return { cert, key }
}
