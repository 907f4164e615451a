import type { Random } from '../soak/random.ts'
import { reader, readersTokens, stranger } from './kinds.ts'
import type { Extent, FaultStep, Step } from './plan.ts'
import type { WorldToken } from './world/world.ts'

const [first, second] = readersTokens
const own = (token: string): WorldToken => ({ token, user: reader })
const strangers = (token: string): WorldToken => ({ token, user: stranger })

/** What an operator leaves in the file of tokens, after which the first token is the reader's, another user's, or nobody's. */
const files: readonly (readonly WorldToken[])[] = [
  [own(first)],
  [own(first), own(second)],
  [own(second)],
  [strangers(first), own(second)],
  [strangers(first)],
  [],
]

/** Returns moments at which an operator rotates the reader's token, gives it to another user, or takes it away. */
export function rotationOf(random: Random, { lengthMs }: Pick<Extent, 'lengthMs'>): FaultStep[] {
  return Array.from({ length: 1 + random.below(4) }, () => ({
    at: random.below(lengthMs),
    fault: { type: 'tokens', tokens: random.pick(files) } as const,
  }))
}

/** Lets more clients read with a token, the old one or the new one. */
export function withTokens(random: Random, steps: readonly Step[]): Step[] {
  return steps.map(step => {
    if (!('action' in step)) return step
    const { action } = step
    if (action.do !== 'get' && action.do !== 'list' && action.do !== 'watch') return step
    if (action.token === undefined && !random.chance(0.3)) return step
    return { ...step, action: { ...action, token: random.chance(0.6) ? first : second } }
  })
}
