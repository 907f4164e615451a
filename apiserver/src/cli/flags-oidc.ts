import type { OidcOptions } from '../security/index.ts'
import type { Settings } from './flags-settings.ts'
import { type Flag, flags, type ValueFlag } from './flags-table.ts'
import { quote, UsageError } from './flags-values.ts'

const prefix = 'oidc-'

export const issuerFlags = [
  flags.oidcIssuer,
  flags.oidcAudience,
  flags.oidcCa,
  flags.oidcUsernameClaim,
  flags.oidcUsernamePrefix,
  flags.oidcGroupsClaim,
  flags.oidcGroupsPrefix,
] as const

/** Returns the value of a flag for one issuer, or undefined if it is not given. */
type Read = <T>(flag: ValueFlag<T>) => T | undefined

/**
 * Returns the OpenID Connect issuers: one of the flags, or those of the configuration file's `oidc`, whose keys are the
 * names of the flags without `oidc-`.
 * @throws UsageError
 */
export function oidcOptions(settings: Settings): readonly OidcOptions[] {
  const { issuers } = settings
  const given = issuerFlags.map(flag => settings.origin(flag)).find(origin => origin !== undefined)
  if (issuers === undefined) {
    if (given === undefined) return []
    return [issuerOf(flag => settings.optional(flag), given, `--${flags.oidcIssuer.name}`)]
  }
  if (given !== undefined) throw new UsageError(`${given} and ${issuers.origin} exclude each other`)
  const all = issuers.sections.map((section, at) =>
    issuerOf(readerOf(settings, section, `${issuers.origin}[${at}]`), `${issuers.origin}[${at}]`, 'issuer'),
  )
  const twin = all.find(({ issuer }, at) => all.findIndex(other => other.issuer === issuer) !== at)
  if (twin !== undefined) throw new UsageError(`${issuers.origin}: ${twin.issuer} is there twice`)
  return all
}

/** @throws UsageError */
function readerOf(settings: Settings, section: Readonly<Record<string, unknown>>, origin: string): Read {
  const keyOf = ({ name }: Flag) => name.slice(prefix.length)
  const keys = issuerFlags.map(keyOf)
  const unknown = Object.keys(section).find(key => !keys.includes(key))
  if (unknown !== undefined)
    throw new UsageError(`${origin}: unknown key ${quote(unknown)}; accepted: ${keys.join(', ')}`)
  return flag => {
    const text = section[keyOf(flag)]
    if (text === undefined) return undefined
    const place = `${origin}.${keyOf(flag)}`
    if (typeof text !== 'string') throw new UsageError(`${place}: one text is accepted`)
    return settings.read(flag, text, place)
  }
}

/** @param origin a setting that was given, for messages. @param name how the setting of the URL is called */
function issuerOf(read: Read, origin: string, name: string): OidcOptions {
  const issuer = read(flags.oidcIssuer)
  const audience = read(flags.oidcAudience)
  if (issuer === undefined) throw new UsageError(`${origin}: needs ${name}, the URL of the issuer`)
  if (audience === undefined)
    throw new UsageError(`${origin}: ${issuer} needs an audience, which its tokens must be for`)
  const usernameClaim = read(flags.oidcUsernameClaim) ?? flags.oidcUsernameClaim.default
  const usernamePrefix = read(flags.oidcUsernamePrefix) ?? (usernameClaim === 'email' ? '-' : `${issuer}#`)
  return {
    issuer,
    audience,
    caFile: read(flags.oidcCa)?.path,
    usernameClaim,
    usernamePrefix: usernamePrefix === '-' ? '' : usernamePrefix,
    groupsClaim: read(flags.oidcGroupsClaim) ?? flags.oidcGroupsClaim.default,
    groupsPrefix: read(flags.oidcGroupsPrefix) ?? '',
  }
}
