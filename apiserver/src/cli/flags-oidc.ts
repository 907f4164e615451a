import type { OidcOptions } from '../security/index.ts'
import { type Flag, type ValueFlag, value } from './flag.ts'
import { readAuthoritiesFile } from './flags-files.ts'
import type { Settings } from './flags-settings.ts'
import { quote, readIssuer, readNonEmpty, UsageError } from './flags-values.ts'

const prefix = 'oidc-'

/** The flags of an OpenID Connect issuer. */
export const oidcFlags = Object.freeze({
  oidcIssuer: value({
    name: 'oidc-issuer',
    placeholder: 'URL',
    description:
      'OpenID Connect issuer whose ID tokens are accepted; `oidc` in the configuration file takes several',
    read: readIssuer,
  }),
  oidcAudience: value({
    name: 'oidc-audience',
    placeholder: 'AUDIENCE',
    description: 'audience that ID tokens must be for: the client ID; required with --oidc-issuer',
    read: readNonEmpty,
  }),
  oidcCa: value({
    name: 'oidc-ca',
    placeholder: 'FILE',
    description:
      "CA certificates (PEM) for the issuer's certificate, read whenever its keys are fetched; by default those of the system",
    read: readAuthoritiesFile,
  }),
  oidcUsernameClaim: value({
    name: 'oidc-username-claim',
    placeholder: 'CLAIM',
    default: 'sub',
    description: 'claim that names the user; `email` is refused if `email_verified` is false',
    read: readNonEmpty,
  }),
  oidcUsernamePrefix: value({
    name: 'oidc-username-prefix',
    placeholder: 'PREFIX',
    description:
      "precedes the user's name; `-` for none; by default the issuer and `#`, or none for the claim `email`",
    read: readNonEmpty,
  }),
  oidcGroupsClaim: value({
    name: 'oidc-groups-claim',
    placeholder: 'CLAIM',
    default: 'groups',
    description: 'claim that lists the groups of the user',
    read: readNonEmpty,
  }),
  oidcGroupsPrefix: value({
    name: 'oidc-groups-prefix',
    placeholder: 'PREFIX',
    description: 'precedes the name of each group; by default none',
    read: readNonEmpty,
  }),
})

const issuerFlags = Object.values(oidcFlags)

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
    return [issuerOf(flag => settings.optional(flag), given, `--${oidcFlags.oidcIssuer.name}`)]
  }
  if (given !== undefined) throw new UsageError(`${given} and ${issuers.origin} exclude each other`)
  const all = issuers.sections.map((section, at) =>
    issuerOf(readerOf(settings, section, `${issuers.origin}[${at}]`), `${issuers.origin}[${at}]`, 'issuer'),
  )
  const duplicate = all.find(({ issuer }, at) => all.findIndex(other => other.issuer === issuer) !== at)
  if (duplicate !== undefined) throw new UsageError(`${issuers.origin}: ${duplicate.issuer} is there twice`)
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
  const issuer = read(oidcFlags.oidcIssuer)
  const audience = read(oidcFlags.oidcAudience)
  if (issuer === undefined) throw new UsageError(`${origin}: needs ${name}, the URL of the issuer`)
  if (audience === undefined)
    throw new UsageError(`${origin}: ${issuer} needs an audience, which its tokens must be for`)
  const usernameClaim = read(oidcFlags.oidcUsernameClaim) ?? oidcFlags.oidcUsernameClaim.default
  const usernamePrefix =
    read(oidcFlags.oidcUsernamePrefix) ?? (usernameClaim === 'email' ? '-' : `${issuer}#`)
  return {
    issuer,
    audience,
    caFile: read(oidcFlags.oidcCa)?.path,
    usernameClaim,
    usernamePrefix: usernamePrefix === '-' ? '' : usernamePrefix,
    groupsClaim: read(oidcFlags.oidcGroupsClaim) ?? oidcFlags.oidcGroupsClaim.default,
    groupsPrefix: read(oidcFlags.oidcGroupsPrefix) ?? '',
  }
}
