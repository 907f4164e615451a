import type { History } from '../history.ts'
import { tokensMs } from '../world/world.ts'

/** Milliseconds for a server that goes on after a pause to do what it had to do meanwhile. */
const slackMs = 100

/** Whose a token was, and when servers must have noticed. */
export class TokenTimes {
  readonly #tokens: History['tokens']
  readonly #pauses: History['pauses']

  constructor({ tokens, pauses }: Pick<History, 'tokens' | 'pauses'>) {
    this.#tokens = tokens
    this.#pauses = pauses.toSorted((a, b) => b.at - a.at)
  }

  /** Returns the users of a token in a time, where undefined stands for nobody. */
  usersOf(token: string, { from, to }: Time): ReadonlySet<string | undefined> {
    const first = this.#tokens.findLastIndex(({ at }) => at <= from)
    const files = this.#tokens.filter((file, n) => n >= first && file.at <= to)
    const users = files.map(({ tokens }) => tokens.find(each => each.token === token)?.user)
    // Before the first file there was none.
    return new Set(first < 0 ? [undefined, ...users] : users)
  }

  /**
   * Returns from when the tokens count by which a server may have decided in a time. It notices others within `tokensMs`, or
   * when it goes on after a pause; one that is killed reads them when it starts.
   */
  since(server: number, { from, to }: Time): number {
    let since = from - tokensMs - slackMs
    for (const pause of this.#pauses)
      if (pause.server === server && pause.at <= to && pause.until + slackMs >= since)
        since = Math.min(since, pause.at - tokensMs - slackMs)
    return since
  }
}

interface Time {
  readonly from: number
  readonly to: number
}
