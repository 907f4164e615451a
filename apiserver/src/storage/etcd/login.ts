import { status } from '@grpc/grpc-js'
import { CallError } from './call-error.ts'
import { etcdDefaults } from './defaults.ts'

/** A user of etcd. Read for each login, so a changed password applies from then on. */
export interface Credentials {
  readonly user: string
  readonly password: string
  /** The password before the last change. Tried second, because etcd's may change before or after this one. */
  readonly previousPassword?: string
}

/** Logs in once. @throws CallError */
type Authenticate = (request: { readonly name: string; readonly password: string }) => Promise<string>

/**
 * The token that all connections to a cluster share: etcd makes tokens known to all members. A member forgets a token
 * that it has not seen for five minutes, and all do when the password changes.
 *
 * One login is under way at a time, because each costs etcd a bcrypt. Reaching the limits of a caller ends its wait,
 * not the login. A rejected password is not tried again for a while.
 */
export class Login {
  readonly #credentials: Credentials
  readonly #authenticate: Authenticate
  #token: string | undefined
  #underWay: Promise<string> | undefined

  constructor(credentials: Credentials, authenticate: Authenticate) {
    this.#credentials = credentials
    this.#authenticate = authenticate
  }

  get isUnderWay(): boolean {
    return this.#underWay !== undefined
  }

  /**
   * Returns the token, or logs in.
   * @param stale a token that etcd no longer accepts
   */
  token(stale?: string): string | Promise<string> {
    if (this.#token !== undefined && this.#token !== stale) return this.#token
    this.#underWay ??= this.#logIn()
    return this.#underWay
  }

  #logIn(): Promise<string> {
    const login = this.#tryPasswords()
    const over = () => {
      this.#underWay = undefined
    }
    login.then(
      token => {
        this.#token = token
        over()
      },
      (error: unknown) => {
        if (isRejection(error)) setTimeout(over, etcdDefaults.loginPauseMs).unref()
        else over()
      },
    )
    return login
  }

  async #tryPasswords(): Promise<string> {
    const { user: name, password, previousPassword } = this.#credentials
    try {
      return await this.#authenticate({ name, password })
    } catch (error) {
      if (previousPassword === undefined || !isRejection(error)) throw error
      return this.#authenticate({ name, password: previousPassword })
    }
  }
}

function isRejection(error: unknown): boolean {
  return error instanceof CallError && error.code === status.INVALID_ARGUMENT
}
