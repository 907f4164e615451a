import { status } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { CallError } from './call-error.ts'
import { etcdDefaults } from './defaults.ts'
import { type Credentials, Login } from './login.ts'

/** An etcd that knows one password, and responds when the test lets it. */
function loginTo(credentials: Credentials) {
  const tried: string[] = []
  const waiting: (() => void)[] = []
  const etcd = { password: 'secret', tried, respond: () => waiting.shift()?.() }
  const login = new Login(
    credentials,
    ({ password }) =>
      new Promise((resolve, reject) => {
        tried.push(password)
        waiting.push(() => {
          if (password === etcd.password) resolve(`token ${tried.length}`)
          else reject(new CallError(status.INVALID_ARGUMENT, 'authentication failed', 'etcd'))
        })
      }),
  )
  return { etcd, login }
}

/** Lets promises run that nothing holds up. */
const settle = () => new Promise<void>(resolve => setImmediate(resolve))

describe('the login to etcd', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
  afterEach(() => void vi.useRealTimers())

  test('is one for all who ask while it is under way, and its token serves those who ask later', async () => {
    const { etcd, login } = loginTo({ user: 'setpoint', password: 'secret' })
    const tokens = Array.from({ length: 20 }, () => login.token())
    expect(login.isUnderWay).toBe(true)
    etcd.respond()
    expect(new Set(await Promise.all(tokens))).toEqual(new Set(['token 1']))
    expect(login.token()).toBe('token 1')
    // Many calls were sent with the token that etcd refuses now.
    const renewed = [login.token('token 1'), login.token('token 1')]
    etcd.respond()
    expect(await Promise.all(renewed)).toEqual(['token 2', 'token 2'])
    expect(login.token('token 1')).toBe('token 2')
    expect(etcd.tried).toHaveLength(2)
  })

  test('tries both passwords, whether etcd has taken the new one already or not', async () => {
    const credentials = { user: 'setpoint', password: 'secret' }
    const { etcd, login } = loginTo(credentials)
    const logIn = async (stale?: string) => {
      const token = login.token(stale)
      for (let n = 0; n < 2; n++) {
        etcd.respond()
        await settle()
      }
      return token
    }
    await logIn()
    Object.assign(credentials, { password: 'new', previousPassword: 'secret' })
    expect(await logIn('token 1')).toBe('token 3')
    etcd.password = 'new'
    expect(await logIn('token 3')).toBe('token 4')
    expect(etcd.tried).toEqual(['secret', 'new', 'secret', 'new'])
  })

  test('does not try a rejected password again at once, because each attempt costs etcd a bcrypt', async () => {
    const { etcd, login } = loginTo({ user: 'setpoint', password: 'wrong' })
    const first = login.token()
    etcd.respond()
    await expect(first).rejects.toThrow('authentication failed')
    await expect(login.token()).rejects.toThrow('authentication failed')
    expect(etcd.tried).toHaveLength(1)
    etcd.password = 'wrong'
    vi.advanceTimersByTime(etcdDefaults.loginPauseMs)
    const second = login.token()
    etcd.respond()
    expect(await second).toBe('token 2')
  })
})
