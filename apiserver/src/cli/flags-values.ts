import { X509Certificate } from 'node:crypto'
import { BlockList, isIP, isIPv6 } from 'node:net'
import { join, resolve } from 'node:path'
import { checkSubdomain } from '@setpoint/controller-runtime/api'
import { TokenList, TokenListError } from '../security/token-list.ts'

/** Answers a file's text (UTF-8), or throws what `node:fs` throws. */
export type ReadFile = (path: string) => string

/**
 * The command line, the environment or the configuration file asks for something that cannot be.
 * The message is one line that says what is wrong and what is accepted.
 */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly exitCode = 2
}

/** Where the server listens. `host` is an IP address without brackets, or a host name. */
export interface ListenAddress {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
}

/**
 * The readers below take the text that was given for a flag and answer its value.
 * They throw UsageError with a message that does not name the flag: their caller knows where the text came from.
 */
export function readListenAddress(text: string): ListenAddress {
  const accepted = 'HOST:PORT is accepted, such as 127.0.0.1:8090, localhost:0 or [::1]:8090'
  const match = /^(?:\[([^\]]*)\]|([^:[\]]*)):(\d{1,5})$/.exec(text)
  if (match === null) throw new UsageError(`${quote(text)} is not an address: ${accepted}`)
  const [, bracketed, plain, digits = ''] = match
  const port = Number(digits)
  if (port > 65_535) throw new UsageError(`${quote(text)}: a port is at most 65535`)
  if (bracketed !== undefined) {
    if (!isIPv6(bracketed)) throw new UsageError(`${quote(text)}: only an IPv6 address stands in brackets`)
    return { host: bracketed, port }
  }
  // In Go's notation an empty host means every interface. Nobody should open a server to the world by leaving
  // something out, so the host is asked for.
  const host = plain ?? ''
  if (host === '') throw new UsageError(`${quote(text)} names no host: ${accepted}`)
  if (isIP(host) === 0 && !/^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$/.test(host)) {
    throw new UsageError(
      `${quote(text)}: ${quote(host)} is neither an IP address nor a host name: ${accepted}`,
    )
  }
  return { host, port }
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/** Whether only this machine can reach the address. A host name other than `localhost` may resolve to anything. */
export function isLoopback(host: string): boolean {
  const family = isIP(host)
  if (family === 0) return host.toLowerCase() === 'localhost'
  return loopback.check(host, family === 6 ? 'ipv6' : 'ipv4')
}

/** `HOST:PORT`, with brackets where they are needed. */
export function formatAddress({ host, port }: ListenAddress): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`
}

/** Answers the path without a slash at its end, so that paths are appended to it: '' for the root. */
export function readBasePath(text: string): string {
  const path = text.replace(/\/$/, '')
  const segments = path.split('/').slice(1)
  const usable = segments.every(segment => /^[A-Za-z0-9._~-]+$/.test(segment) && !/^\.+$/.test(segment))
  if (!text.startsWith('/') || !usable) {
    throw new UsageError(
      `${quote(text)} is not a path: it starts with '/' and consists of letters, digits, '-', '.', '_' and '~' between slashes, such as /setpoint`,
    )
  }
  return path
}

/** Answers an absolute path; a relative one is taken from the working directory. */
export function readDirectory(text: string): string {
  return resolve(nonEmpty(text, 'a directory'))
}

/**
 * Answers the absolute path of a folder that has a package.json. What is wrong in there is the plugin's own fault, and
 * told by its status; a folder that is none was named by mistake.
 */
export function readPluginDirectory(text: string, readFile: ReadFile): string {
  const dir = readDirectory(text)
  try {
    readFile(join(dir, 'package.json'))
  } catch (error) {
    throw new UsageError(`${quote(text)} holds no plugin: ${reasonOf(error)}`, { cause: error })
  }
  return dir
}

/** Answers `http://host:port`, `https://host:port`, or `host:port` where no scheme was given. */
export function readEtcdEndpoint(text: string): string {
  const match =
    /^(https?:\/\/)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?):(\d{1,5})\/?$/.exec(text)
  if (match === null || Number(match[4]) > 65_535) {
    throw new UsageError(
      `${quote(text)} is not an etcd endpoint: HOST:PORT is accepted, with http:// or https:// before it or without`,
    )
  }
  return text.replace(/\/$/, '')
}

/** Answers a prefix without a slash at its end. */
export function readKeyPrefix(text: string): string {
  const prefix = text.replace(/\/+$/, '')
  if (!/^\S+$/.test(prefix)) {
    throw new UsageError(
      `${quote(text)} is not a key prefix: text without spaces is accepted, such as /setpoint`,
    )
  }
  return prefix
}

export function readDomain(text: string): string {
  const problem = checkSubdomain(text)
  if (problem !== undefined) throw new UsageError(`${quote(text)} ${problem}`)
  return text
}

/** The name of an object. */
export function readLeaseName(text: string): string {
  return readDomain(text)
}

/** Answers the URL without a slash at its end, so that paths are appended to it. */
export function readServerUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new UsageError(
      `${quote(text)} is not the URL of a server: http://HOST:PORT or https://HOST:PORT is accepted`,
    )
  }
  if (url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '') {
    throw new UsageError('the URL of a server has no query, fragment or credentials')
  }
  return url.href.replace(/\/$/, '')
}

/** Answers the text of a PEM file. */
function readPem(text: string, readFile: ReadFile): string {
  const pem = readText(nonEmpty(text, 'a file'), readFile)
  if (!pem.includes('-----BEGIN ')) throw new UsageError(`${quote(text)} is not a PEM file`)
  return pem
}

/** Answers the text of a PEM file of one certificate or several, of authorities. */
export function readAuthorities(text: string, readFile: ReadFile): string {
  const pem = readPem(text, readFile)
  const whole = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
  // Where a file has been cut off, Node takes what is whole, and none at all, without a word.
  if (whole.length !== pem.split('-----BEGIN ').length - 1)
    throw new UsageError(`${quote(text)} is not a PEM file of whole certificates and nothing else`)
  for (const [at, each] of whole.entries()) {
    try {
      new X509Certificate(each)
    } catch (error) {
      throw new UsageError(`${quote(text)}: certificate ${at + 1} in it cannot be read: ${reasonOf(error)}`, {
        cause: error,
      })
    }
  }
  return pem
}

/** The same, of a file that may be renewed while the server runs. */
export function readAuthoritiesFile(text: string, readFile: ReadFile): NamedText {
  return { path: resolve(text), text: readAuthorities(text, readFile) }
}

/** A PEM file that may be renewed while the server runs. */
export function readPemFile(text: string, readFile: ReadFile): NamedText {
  return { path: resolve(text), text: readPem(text, readFile) }
}

/** A file of tokens, as far as it is one: see `TokenList`. */
export function readTokenFile(text: string, readFile: ReadFile): NamedText {
  const file = readTextFile(text, readFile)
  try {
    new TokenList(file.text)
  } catch (error) {
    if (error instanceof TokenListError) throw new UsageError(`${quote(text)} ${error.message}`)
    throw error
  }
  return { path: resolve(text), text: file.text }
}

/** A file with one token. The path stays, since the token may be renewed. */
export function readSecretFile(text: string, readFile: ReadFile): NamedText {
  const file = readTextFile(text, readFile)
  if (file.text.trim() === '') throw new UsageError(`${quote(text)} is empty: a token is expected`)
  return { path: resolve(text), text: file.text.trim() }
}

/** A file's text, with its path for messages. */
export interface NamedText {
  readonly path: string
  readonly text: string
}

export function readTextFile(path: string, readFile: ReadFile): NamedText {
  return { path, text: readText(nonEmpty(path, 'a file'), readFile) }
}

function readText(path: string, readFile: ReadFile): string {
  try {
    return readFile(path)
  } catch (error) {
    throw new UsageError(`${quote(path)} cannot be read: ${reasonOf(error)}`, { cause: error })
  }
}

/** On one line. */
function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ')
}

export function readNonEmpty(text: string): string {
  return nonEmpty(text, 'a value')
}

/** A number of things, at least one. */
export function readCount(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw new UsageError(`${quote(text)} is not a count: a whole number from 1 to 999999999 is accepted`)
  return Number(text)
}

/** A reader that takes one of these words. */
export function oneOf<const Word extends string>(...words: readonly Word[]): (text: string) => Word {
  return text => {
    const word = words.find(each => each === text)
    if (word === undefined) throw new UsageError(`${quote(text)} is not one of ${words.join(', ')}`)
    return word
  }
}

/** For messages: on one line whatever it holds, and short. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
}

function nonEmpty(text: string, what: string): string {
  if (text.trim() === '') throw new UsageError(`is empty: ${what} is needed`)
  return text
}
