/** One thing that can be wrong with a manager. */
export interface HealthCheck {
  /** `leader-election`, `informer/<plural>.<group>`. */
  readonly name: string
  /** What is wrong; absent where nothing is. */
  readonly problem?: string
}

/** How a manager is doing. Standing by is well; so is a server that is away, for a while. */
export interface ManagerHealth {
  /** False where only a restart helps: nothing tries to get or keep the lease any more. */
  readonly live: boolean
  /** Whether every cache has been filled. */
  readonly ready: boolean
  /** What `live` was made of. */
  readonly liveness: readonly HealthCheck[]
  /** What `ready` was made of. */
  readonly readiness: readonly HealthCheck[]
}

export function healthOf(checks: Pick<ManagerHealth, 'liveness' | 'readiness'>): ManagerHealth {
  const isWell = ({ problem }: HealthCheck) => problem === undefined
  return { live: checks.liveness.every(isWell), ready: checks.readiness.every(isWell), ...checks }
}
