import { type Access, builtInGroups, type Identity, systemGroups } from './access.ts'

/** Allows everything. In force while no authentication is configured, with `LocalOrigins`. */
export class LocalAccess implements Access {
  identify(): Identity {
    return localIdentity
  }
  onRevoked(): () => void {
    return () => {}
  }
}

/** The identity of all callers without authentication. */
const localIdentity: Identity = Object.freeze({
  user: Object.freeze({
    name: 'setpoint:local',
    groups: Object.freeze([builtInGroups.admins, systemGroups.authenticated]),
  }),
  credential: undefined,
})
