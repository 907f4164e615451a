import { X509Certificate } from 'node:crypto'
import { resolve } from 'node:path'
import { AuditPolicyError, readPolicy } from '../audit/policy-file.ts'
import { EncryptionConfigurationError, readEncryptionConfiguration } from '../encryption/configuration.ts'
import { TokenList, TokenListError } from '../security/token-list.ts'
import { nonEmpty, quote, reasonOf, UsageError } from './flags-values.ts'

/** Returns the UTF-8 text of a file. @throws the errors of `node:fs` */
export type ReadFile = (path: string) => string

/** The text of a file with its path. */
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

/** Returns the text of a PEM file. */
function readPem(text: string, readFile: ReadFile): string {
  const pem = readText(nonEmpty(text, 'a file'), readFile)
  if (!pem.includes('-----BEGIN ')) throw new UsageError(`${quote(text)} is not a PEM file`)
  return pem
}

/** Returns the text of a PEM file with one or more CA certificates. */
export function readAuthorities(text: string, readFile: ReadFile): string {
  const pem = readPem(text, readFile)
  checkAuthorities({ path: text, text: pem })
  return pem
}

const wholeCertificate = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

/** Returns the certificates of a PEM file. @throws Error if one cannot be read */
export function authoritiesIn(text: string): X509Certificate[] {
  return (text.match(wholeCertificate) ?? []).map(each => new X509Certificate(each))
}

/** @throws UsageError if a PEM file has anything else than whole certificates, or none */
export function checkAuthorities({ path, text }: NamedText): void {
  const whole = text.match(wholeCertificate) ?? []
  // Node silently ignores certificates that are cut off.
  if (whole.length === 0 || whole.length !== text.split('-----BEGIN ').length - 1)
    throw new UsageError(`${quote(path)} is not a PEM file of whole certificates and nothing else`)
  for (const [at, each] of whole.entries()) {
    try {
      new X509Certificate(each)
    } catch (error) {
      throw new UsageError(`${quote(path)}: certificate ${at + 1} in it cannot be read: ${reasonOf(error)}`, {
        cause: error,
      })
    }
  }
}

/** Reads CA certificates that may be renewed while the server runs. */
export function readAuthoritiesFile(text: string, readFile: ReadFile): NamedText {
  return { path: resolve(text), text: readAuthorities(text, readFile) }
}

/** Reads a PEM file that may be renewed while the server runs. */
export function readPemFile(text: string, readFile: ReadFile): NamedText {
  return { path: resolve(text), text: readPem(text, readFile) }
}

/** Reads a token file and checks that it is valid, see `TokenList`. */
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

/**
 * Reads a file with one token, and rejects the server's list of users. Keeps the path, because the token may be
 * renewed.
 */
export function readSecretFile(text: string, readFile: ReadFile): NamedText {
  const token = readTextFile(text, readFile).text.trim()
  if (token === '') throw new UsageError(`${quote(text)} is empty: it must contain a token`)
  if (!isToken(token))
    throw new UsageError(
      `${quote(text)} is not one token; the server's list of users has only hashes: give the token that \`setpoint token\` has shown`,
    )
  return { path: resolve(text), text: token }
}

/** Reads a file with one password, which may change while the server runs. The text is that of the file. */
export function readPasswordFile(text: string, readFile: ReadFile): NamedText {
  const file = readTextFile(text, readFile)
  passwordIn(file.text)
  return { path: resolve(text), text: file.text }
}

/** Returns the password in a file: everything up to a line break at its end. @throws UsageError if there is none */
export function passwordIn(text: string): string {
  const password = text.replace(/\r?\n$/, '')
  if (password === '') throw new UsageError('the file is empty: it must contain a password')
  return password
}

/** Reads the token of one user, see `readSecretFile`. */
export function readOwnTokenFile(text: string, readFile: ReadFile): string {
  return readSecretFile(text, readFile).text
}

/** Returns true for one word of visible ASCII characters. HTTP allows no others in credentials. */
export function isToken(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text)
}

/** Reads an audit policy and checks that it is valid, see `readPolicy`. */
export function readAuditPolicy(text: string, readFile: ReadFile): NamedText {
  const file = readTextFile(text, readFile)
  try {
    readPolicy(file.text)
  } catch (error) {
    if (error instanceof AuditPolicyError) throw new UsageError(`${quote(text)}: ${error.message}`)
    throw error
  }
  return { path: resolve(text), text: file.text }
}

/** Reads an EncryptionConfiguration and checks that it is valid, see `readEncryptionConfiguration`. */
export function readEncryptionFile(text: string, readFile: ReadFile): NamedText {
  const file = readTextFile(text, readFile)
  try {
    readEncryptionConfiguration(file.text)
  } catch (error) {
    if (error instanceof EncryptionConfigurationError)
      throw new UsageError(`${quote(text)}: ${error.message}`)
    throw error
  }
  return { path: resolve(text), text: file.text }
}
