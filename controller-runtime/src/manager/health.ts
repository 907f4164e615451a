/** One health check of a manager. */
export interface HealthCheck {
  /** `leader-election`, `informer/<plural>.<group>`. */
  readonly name: string
  /** The problem; absent if the check passes. */
  readonly problem?: string
}

/** The health of a manager. A standby is healthy; so is a manager whose server is away for less than a lease lasts. */
export interface ManagerHealth {
  /** False if only a restart helps: the election has stopped. */
  readonly live: boolean
  /** Whether every cache has synced, and the manager leads or stands by beside a live leader. */
  readonly ready: boolean
  /** The checks behind `live`. */
  readonly liveness: readonly HealthCheck[]
  /** The checks behind `ready`. */
  readonly readiness: readonly HealthCheck[]
}

export function healthOf(checks: Pick<ManagerHealth, 'liveness' | 'readiness'>): ManagerHealth {
  const isWell = ({ problem }: HealthCheck) => problem === undefined
  return { live: checks.liveness.every(isWell), ready: checks.readiness.every(isWell), ...checks }
}
