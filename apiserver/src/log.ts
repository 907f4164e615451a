export type { Logger } from '@setpoint/controller-runtime'
