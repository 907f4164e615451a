import { type CommandName, type Flag, storeCommands, type ValueFlag, value } from './flag.ts'
import {
  type NamedText,
  passwordIn,
  readAuthoritiesFile,
  readEncryptionFile,
  readPasswordFile,
  readPemFile,
} from './flags-files.ts'
import { bothOrNeither, keyPair } from './flags-pairs.ts'
import type { Settings } from './flags-settings.ts'
import {
  oneOf,
  readBoolean,
  readDirectory,
  readEtcdEndpoint,
  readKeyPrefix,
  readNonEmpty,
  UsageError,
} from './flags-values.ts'

const commands: readonly CommandName[] = ['serve', ...storeCommands]

/** The flags of the store. */
export const storeFlags = Object.freeze({
  store: value({
    name: 'store',
    placeholder: 'embedded|etcd',
    description: 'where objects are stored; etcd if --etcd-endpoints is given, else embedded',
    commands,
    read: oneOf('embedded', 'etcd'),
  }),
  dataDir: value({
    name: 'data-dir',
    placeholder: 'DIR',
    default: './.setpoint',
    description: 'directory of the embedded store',
    commands: [...commands, 'dev'],
    differs: { dev: { default: '.setpoint in the folder of the plugin' } },
    read: readDirectory,
  }),
  compactStore: value({
    name: 'compact-store',
    placeholder: 'true|false',
    default: 'false',
    bare: 'true',
    description:
      'rewrite the file of the embedded store without its free space before serving; needs disk space for the copy',
    differs: {
      reencrypt: {
        description:
          'afterwards drop the history of the embedded store, and rewrite its file without its free space, so that no file has the old values; needs disk space for the copy',
      },
    },
    commands: ['serve', 'reencrypt'],
    read: readBoolean,
  }),
  etcdEndpoints: {
    name: 'etcd-endpoints',
    kind: 'list',
    placeholder: 'HOST:PORT,...',
    description: 'members of the etcd cluster, separated by commas',
    commands,
    read: readEtcdEndpoint,
  } satisfies ValueFlag<string>,
  etcdPrefix: value({
    name: 'etcd-prefix',
    placeholder: 'PREFIX',
    default: '/setpoint',
    description: 'prefix of every key in etcd',
    commands,
    read: readKeyPrefix,
  }),
  etcdCa: value({
    name: 'etcd-ca',
    placeholder: 'FILE',
    description: 'CA certificates (PEM) for etcd; reloaded when they change',
    commands,
    read: readAuthoritiesFile,
  }),
  etcdCert: value({
    name: 'etcd-cert',
    placeholder: 'FILE',
    description: 'client certificate (PEM) for etcd; reloaded when it changes; needs --etcd-key',
    commands,
    read: readPemFile,
  }),
  etcdKey: value({
    name: 'etcd-key',
    placeholder: 'FILE',
    description: 'private key (PEM) of --etcd-cert',
    commands,
    read: readPemFile,
  }),
  etcdUser: value({
    name: 'etcd-user',
    placeholder: 'NAME',
    description:
      'user of etcd; needs --etcd-password-file or --etcd-password. Without it, etcd takes the common name of --etcd-cert as the user',
    commands,
    read: readNonEmpty,
  }),
  etcdPassword: value({
    name: 'etcd-password',
    placeholder: 'PASSWORD',
    isSecret: true,
    description:
      'password of --etcd-user. Every user of this machine can read the command line: prefer --etcd-password-file, the environment or the configuration file',
    commands,
    read: readNonEmpty,
  }),
  etcdPasswordFile: value({
    name: 'etcd-password-file',
    placeholder: 'FILE',
    description:
      'file with the password of --etcd-user; reloaded when it changes, and the password before is accepted as well',
    commands,
    read: readPasswordFile,
  }),
  encryptionProviderConfig: value({
    name: 'encryption-provider-config',
    placeholder: 'FILE',
    description:
      'EncryptionConfiguration of apiserver.config.k8s.io/v1: how objects are encrypted in the store, by resource; reloaded when it changes. Without it, nothing is encrypted',
    commands: ['serve', 'check', 'purge', 'reencrypt'],
    read: readEncryptionFile,
  }),
})

export type StoreOptions = EmbeddedStoreOptions | EtcdStoreOptions

interface EmbeddedStoreOptions {
  readonly kind: 'embedded'
  /** Absolute path. Created if it does not exist. */
  readonly dataDir: string
  /** True if the file is rewritten without its free space at the start. */
  readonly compact: boolean
}

export interface EtcdStoreOptions {
  readonly kind: 'etcd'
  /** At least one: all `http://host:port`, or all `https://host:port`. */
  readonly endpoints: readonly string[]
  /** Without a trailing slash. */
  readonly prefix: string
  /** PEM files. `cert` and `key` come together; only with `https` endpoints. */
  readonly tls: { readonly ca?: NamedText; readonly cert?: NamedText; readonly key?: NamedText }
  readonly credentials: EtcdCredentials | undefined
}

interface EtcdCredentials {
  readonly username: string
  readonly password: string
  /** The file that the password is from, if it may change. */
  readonly passwordFile?: NamedText
}

const etcdFlags: readonly Flag[] = [
  storeFlags.etcdPrefix,
  storeFlags.etcdCa,
  storeFlags.etcdCert,
  storeFlags.etcdKey,
  storeFlags.etcdUser,
  storeFlags.etcdPassword,
  storeFlags.etcdPasswordFile,
]

/**
 * Returns the store of a command that works on one. Refuses a folder on the command line if etcd is named elsewhere: a
 * restore into a folder must not replace the etcd that the environment or the configuration file names.
 * @throws UsageError, also for settings that contradict each other
 */
export function storeOfCommand(settings: Settings): StoreOptions {
  const store = storeOptions(settings)
  const isChosen = [storeFlags.store, storeFlags.etcdEndpoints].some(flag => settings.isOnCommandLine(flag))
  if (store.kind === 'etcd' && settings.isOnCommandLine(storeFlags.dataDir) && !isChosen)
    throw new UsageError(
      `--data-dir is for the embedded store, and ${settings.origin(storeFlags.etcdEndpoints)} names etcd: give one of them`,
    )
  return store
}

/** @throws UsageError for settings that contradict each other */
export function storeOptions(settings: Settings): StoreOptions {
  const endpoints = settings.several(storeFlags.etcdEndpoints)
  const kind = settings.optional(storeFlags.store) ?? (endpoints === undefined ? 'embedded' : 'etcd')
  if (kind === 'embedded') {
    if (endpoints !== undefined) {
      throw new UsageError(
        `${settings.origin(storeFlags.store)} embedded contradicts ${settings.origin(storeFlags.etcdEndpoints)}: give one of them`,
      )
    }
    const useless = etcdFlags.find(flag => settings.isOnCommandLine(flag))
    if (useless !== undefined) throw new UsageError(`--${useless.name} needs --etcd-endpoints`)
    const compact = settings.value(storeFlags.compactStore)
    return { kind, dataDir: settings.value(storeFlags.dataDir), compact }
  }
  if (endpoints === undefined) {
    throw new UsageError(`${settings.origin(storeFlags.store)} etcd needs --etcd-endpoints HOST:PORT,...`)
  }
  if (settings.value(storeFlags.compactStore))
    throw new UsageError(
      `${settings.origin(storeFlags.compactStore)} is for the embedded store, not for etcd`,
    )
  const tls: EtcdStoreOptions['tls'] = {
    ca: settings.optional(storeFlags.etcdCa),
    ...keyPair(settings, storeFlags.etcdCert, storeFlags.etcdKey),
  }
  return {
    kind,
    endpoints: withScheme(endpoints, tls.ca !== undefined || tls.cert !== undefined),
    prefix: settings.value(storeFlags.etcdPrefix),
    tls,
    credentials: credentialsIn(settings),
  }
}

function credentialsIn(settings: Settings): EtcdCredentials | undefined {
  const { etcdUser, etcdPassword, etcdPasswordFile } = storeFlags
  const [given, ofFile] = [settings.origin(etcdPassword), settings.origin(etcdPasswordFile)]
  if (given !== undefined && ofFile !== undefined)
    throw new UsageError(`${given} contradicts ${ofFile}: give one of them`)
  bothOrNeither(settings, etcdUser, ofFile === undefined ? etcdPassword : etcdPasswordFile)
  const username = settings.optional(etcdUser)
  if (username === undefined) return undefined
  const passwordFile = settings.optional(etcdPasswordFile)
  if (passwordFile !== undefined) return { username, password: passwordIn(passwordFile.text), passwordFile }
  const password = settings.optional(etcdPassword)
  return password === undefined ? undefined : { username, password }
}

/** Rejects a mix of schemes, which would send passwords and objects to some members without TLS. */
function withScheme(endpoints: readonly string[], secure: boolean): string[] {
  const urls = endpoints.map(endpoint => {
    return endpoint.includes('://') ? endpoint : `${secure ? 'https' : 'http'}://${endpoint}`
  })
  const plain = urls.find(url => url.startsWith('http://'))
  if (plain !== undefined && (secure || urls.some(url => url.startsWith('https://')))) {
    throw new UsageError(`--etcd-endpoints: ${plain} has no TLS, but other settings of etcd ask for it`)
  }
  return urls
}
