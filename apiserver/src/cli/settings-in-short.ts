import { formatAddress } from './flags-values.ts'
import type { AuthenticationOptions, ServeOptions } from './options.ts'

/** Returns the settings that tell one server from another, for the first line of the log. It has no secrets. */
export function settingsInShort(options: ServeOptions, config: string | undefined): object {
  const { role, plugins } = options
  const shared = { role, config, plugins: plugins?.map(({ label }) => label) }
  if (options.role === 'controllers') {
    const { server, healthListen, lease } = options
    return { ...shared, server, healthListen: healthListen && formatAddress(healthListen), lease }
  }
  const { listen, basePath, store, encryption, tls, authentication, audit } = options
  return {
    ...shared,
    listen: `${formatAddress(listen)}${basePath}`,
    tls: tls !== undefined,
    authentication: waysOf(authentication),
    audit: audit !== undefined,
    encryption: encryption !== undefined,
    store:
      store.kind === 'embedded'
        ? { kind: store.kind, dataDir: store.dataDir }
        : { kind: store.kind, endpoints: store.endpoints, prefix: store.prefix },
  }
}

/** Names the ways to authenticate by their flags. */
function waysOf(authentication: AuthenticationOptions | undefined): string[] {
  const { tokenFile, clientCa, oidc = [] } = authentication ?? {}
  return [
    ...(tokenFile === undefined ? [] : ['token-file']),
    ...(clientCa === undefined ? [] : ['client-ca']),
    ...(oidc.length === 0 ? [] : ['oidc']),
  ]
}
