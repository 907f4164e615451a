import { useEffect, useRef, useState } from 'preact/hooks'
import { get, wordsOf } from '../api/http.ts'
import { type Issuer, signInReason, token, useToken } from '../api/session.ts'
import { signIn } from '../app-state.ts'
import { address, go } from '../route.ts'

/** Asks for credentials: a token, or the way to an issuer. */
export function SignInForm() {
  const [problem, setProblem] = useState('')
  const [isBusy, setBusy] = useState(false)
  const field = useRef<HTMLInputElement>(null)
  const code = address.value.searchParams.has('code') || address.value.searchParams.has('error')
  useEffect(() => {
    if (code) void finish(setProblem)
    else if (token.value !== undefined && signInReason.value === undefined) go('', { replaces: true })
    else field.current?.focus()
  }, [code])
  const submit = async (event: Event) => {
    event.preventDefault()
    const given = field.current?.value.trim() ?? ''
    if (given === '') return
    setBusy(true)
    setProblem('')
    try {
      await check(given)
      useToken(given)
    } catch (error) {
      setProblem(wordsOf(error))
    } finally {
      setBusy(false)
    }
  }
  const reason = signInReason.value ?? ''
  return (
    <div class="sign-in">
      <h1>Sign in</h1>
      {reason !== '' && <p>{reason}</p>}
      {problem !== '' && (
        <div role="alert" class="alert">
          {problem}
        </div>
      )}
      <form aria-label="Sign in" onSubmit={submit}>
        <label for="token">Token</label>
        <input
          id="token"
          ref={field}
          type="text"
          class="secret"
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          aria-describedby="token-help"
        />
        <p id="token-help" class="quiet">
          It is kept in this tab only, until you sign out or close it.
        </p>
        <button type="submit" class="main" disabled={isBusy}>
          Sign in
        </button>
        {signIn.value.issuers.map(issuer => (
          <button type="button" key={issuer.issuer} onClick={() => void leave(issuer, setProblem)}>
            Sign in with {new URL(issuer.issuer).host}
          </button>
        ))}
      </form>
    </div>
  )
}

/** @throws ApiFailure for a token that the server does not accept */
async function check(given: string): Promise<void> {
  const { apiUrl } = await import('../api/address.ts')
  const response = await fetch(apiUrl('/apis'), {
    headers: { authorization: `Bearer ${given}` },
    credentials: 'omit',
  })
  if (response.status === 401) throw new Error('The server does not accept this token.')
  if (!response.ok && response.status !== 403) throw new Error(`The server responds with ${response.status}.`)
}

async function leave(issuer: Issuer, failed: (problem: string) => void): Promise<void> {
  try {
    const { goToIssuer } = await import('../api/oidc.ts')
    await goToIssuer(issuer)
  } catch (error) {
    failed(`${new URL(issuer.issuer).host} cannot be used: ${wordsOf(error)}`)
  }
}

async function finish(failed: (problem: string) => void): Promise<void> {
  try {
    const { returnFromIssuer } = await import('../api/oidc.ts')
    const { idToken, path } = await returnFromIssuer(new URL(location.href))
    go(path, { replaces: true })
    useToken(idToken)
    await get('/version')
  } catch (error) {
    go('', { replaces: true })
    signInReason.value ??= ''
    failed(wordsOf(error))
  }
}
