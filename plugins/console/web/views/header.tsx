import { consoleHref } from '../api/address.ts'
import { endSession, signInReason, token } from '../api/session.ts'
import { socket } from '../api/socket.ts'
import { start } from '../app-state.ts'
import { GoTo } from './go-to.tsx'

/** The name, the way to everything, and how the connection is. */
export function Header() {
  const { value } = start
  const isIn = signInReason.value === undefined
  return (
    <header class="top">
      <a class="brand" href={consoleHref('')}>
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <rect width="32" height="32" rx="7" />
          <path d="M6 20h7l3-9 4 13 2-4h4" />
        </svg>
        Setpoint
      </a>
      {value.is === 'ready' && isIn && <GoTo world={value.world} />}
      <div class="top-end">
        {isIn && (
          <div
            role="status"
            aria-label="Connection"
            class={`connection ${socket.connection.value.toLowerCase()}`}
          >
            {socket.connection.value}
          </div>
        )}
        {value.is === 'ready' && value.world.user !== undefined && (
          <span class="user">{value.world.user}</span>
        )}
        {token.value !== undefined && (
          <button type="button" class="plain" onClick={() => endSession('You have signed out.')}>
            Sign out
          </button>
        )}
      </div>
    </header>
  )
}
