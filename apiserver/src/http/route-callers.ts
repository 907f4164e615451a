import type { ServerResponse } from 'node:http'
import type { UserInfo } from '@setpoint/controller-runtime'

/**
 * The callers of plugins' routes that wait for their response. A plugin may act for them, and only for them: it gets
 * the user object, cannot make another one, and can use it until the response has been sent.
 */
export class RouteCallers {
  readonly #users = new WeakSet<UserInfo>()

  /** Returns a copy of the user for the handler of one request. */
  enter(user: UserInfo, response: ServerResponse): UserInfo {
    const copy = Object.freeze({ ...user })
    this.#users.add(copy)
    response.once('close', () => this.#users.delete(copy))
    return copy
  }

  has(user: UserInfo): boolean {
    return this.#users.has(user)
  }
}
