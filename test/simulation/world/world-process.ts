import type { WorldNode } from './node.ts'

/** A process of the world that can be killed and started again, with nothing but the store in between. */
export interface WorldProcess {
  readonly name: string
  /** Undefined while it does not run. */
  readonly node: WorldNode | undefined
  readonly isReady: boolean
  /** True if the store was replaced since its start, so that it must be started again. */
  readonly isOfEarlierStore: boolean
  /** Does nothing if it runs. */
  start(): void
  /** Ends it at once. */
  kill(): void
}
