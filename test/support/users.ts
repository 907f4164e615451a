import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Answer, Api, type RequestOptions } from './api.ts'

/** Users with tokens, for servers that are started with the flags of `args`. */
export class Users<Name extends string> {
  /** Path of the token file. */
  readonly path: string
  readonly #folder: string
  readonly #groups: Readonly<Record<Name, readonly string[]>>
  readonly #tokens: ReadonlyMap<Name, string>

  private constructor(folder: string, groups: Readonly<Record<Name, readonly string[]>>) {
    this.path = join(folder, 'tokens.yaml')
    this.#folder = folder
    this.#groups = groups
    const names = Object.keys(groups) as Name[]
    // Like `setpoint token`, whose sources the soak cannot import.
    this.#tokens = new Map(names.map(name => [name, `sp_${randomBytes(32).toString('base64url')}`]))
  }

  /** `--token-file FILE` */
  get args(): readonly string[] {
    return ['--token-file', this.path]
  }

  /** @param groups the groups of each user */
  static async make<const Name extends string>(
    groups: Readonly<Record<Name, readonly string[]>>,
  ): Promise<Users<Name>> {
    const users = new Users(await mkdtemp(join(tmpdir(), 'setpoint-users-')), groups)
    await users.write()
    return users
  }

  /** Writes the token file. */
  async write(): Promise<void> {
    const entries = [...this.#tokens].map(([user, token]) => ({
      ...{ user, groups: this.#groups[user] },
      sha256: createHash('sha256').update(token).digest('hex'),
    }))
    // JSON is YAML.
    await writeFile(this.path, JSON.stringify(entries), { mode: 0o600 })
  }

  /** Returns true for the name of one of the users. */
  has(name: string): name is Name {
    return Object.hasOwn(this.#groups, name)
  }

  tokenOf(name: Name): string {
    return this.#tokens.get(name) ?? ''
  }

  headersOf(name: Name): Readonly<Record<string, string>> {
    return { authorization: `Bearer ${this.tokenOf(name)}` }
  }

  /** Returns a client of a server that sends the user's token. */
  api(url: string, name: Name): Api {
    return new UserApi(url, this.headersOf(name))
  }

  async remove(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true })
  }
}

class UserApi extends Api {
  readonly #headers: Readonly<Record<string, string>>

  constructor(url: string, headers: Readonly<Record<string, string>>) {
    super(url)
    this.#headers = headers
  }

  override request(
    method: string,
    path: string,
    body?: unknown,
    options: RequestOptions = {},
  ): Promise<Answer> {
    const headers = { ...this.#headers, ...options.headers }
    return super.request(method, path, body, { ...options, headers })
  }
}
