import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { UserInfo } from '@setpoint/controller-runtime'
import { isRecord } from '@setpoint/controller-runtime/api'
import { load } from 'js-yaml'
import { systemGroups } from './access.ts'

/** The token file is invalid. The message names the place and never shows a token. */
export class TokenListError extends Error {
  override readonly name = 'TokenListError'
}

/** The user of a token. */
interface Holder {
  readonly user: UserInfo
  /** Identifies the token with its user and groups, without its secret. */
  readonly credential: string
}

interface Entry {
  readonly hash: Buffer
  readonly holder: Holder
}

/** The users of a token file, by the hashes of their tokens. */
export class TokenList {
  readonly #entries: readonly Entry[]
  readonly #credentials: ReadonlySet<string>

  /** @throws TokenListError */
  constructor(text: string) {
    this.#entries = readEntries(text)
    this.#credentials = new Set(this.#entries.map(({ holder }) => holder.credential))
  }

  /** Entries. */
  get size(): number {
    return this.#entries.length
  }

  /** Returns the user of a token, or undefined. Takes the same time for any token. */
  find(token: string): Holder | undefined {
    const hash = hashOf(token)
    let found: Holder | undefined
    for (const entry of this.#entries) if (timingSafeEqual(entry.hash, hash)) found = entry.holder
    return found
  }

  /** Returns true if a token still has the same user and groups. */
  knows(credential: string): boolean {
    return this.#credentials.has(credential)
  }
}

/** A token, its hash in hexadecimal, and its entry for the token file. */
interface NewToken {
  readonly token: string
  readonly sha256: string
  /** YAML with a line end. */
  readonly entry: string
}

/** Creates a token. */
export function makeToken(user: UserInfo): NewToken {
  // 256 random bits cannot be guessed, so a plain hash is safe to store.
  const token = `sp_${randomBytes(32).toString('base64url')}`
  const sha256 = hashOf(token).toString('hex')
  const entry = [
    `- user: ${JSON.stringify(user.name)}`,
    `  groups: [${user.groups.map(group => JSON.stringify(group)).join(', ')}]`,
    `  sha256: ${sha256}`,
    '',
  ].join('\n')
  return { token, sha256, entry }
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

function readEntries(text: string): Entry[] {
  // A file that is being rewritten may be empty for a moment, so empty does not mean that no token is valid.
  if (text.trim() === '') throw new TokenListError('is empty; use [] to accept no token')
  let document: unknown
  try {
    document = load(text)
  } catch (error) {
    // The parser's message quotes lines, which may have a token by mistake.
    const line = error instanceof Error ? /\((\d+):\d+\)/.exec(error.message)?.[1] : undefined
    throw new TokenListError(`is not valid YAML${line === undefined ? '' : `: see line ${line}`}`)
  }
  if (!Array.isArray(document)) throw new TokenListError('must be a list of {user, groups, sha256}')
  const seen = new Map<string, number>()
  return document.map((fields: unknown, at) => {
    const { user, groups, hash } = readEntry(fields, `[${at}]`)
    const first = seen.get(hash)
    if (first !== undefined) throw new TokenListError(`[${at}].sha256 is the same as [${first}].sha256`)
    seen.set(hash, at)
    const credential = createHash('sha256')
      .update(JSON.stringify([hash, user, groups]))
      .digest('hex')
    return {
      hash: Buffer.from(hash, 'hex'),
      holder: Object.freeze({
        user: Object.freeze({
          name: user,
          groups: Object.freeze([...new Set([...groups, systemGroups.authenticated])]),
        }),
        credential,
      }),
    }
  })
}

function readEntry(fields: unknown, place: string): { user: string; groups: string[]; hash: string } {
  if (!isRecord(fields)) throw new TokenListError(`${place} must be a mapping of user, groups and sha256`)
  const { user, groups, sha256, ...others } = fields
  const [unknown] = Object.keys(others)
  if (unknown !== undefined)
    throw new TokenListError(`${place} has an unknown key; the valid ones are user, groups and sha256`)
  if (typeof user !== 'string' || user === '')
    throw new TokenListError(`${place}.user must be a non-empty string`)
  if (!Array.isArray(groups) || !groups.every(group => typeof group === 'string'))
    throw new TokenListError(`${place}.groups must be a list of strings, such as [setpoint:viewers]`)
  if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/i.test(sha256))
    throw new TokenListError(`${place}.sha256 must be 64 hexadecimal digits, the hash of the token`)
  return { user, groups: [...groups], hash: sha256.toLowerCase() }
}
