import { signal } from '@preact/signals'
import { apiUrl } from './address.ts'
import { fieldsOf, listOf, textOf } from './json.ts'

/** An OpenID Connect issuer that people can sign in with. */
export interface Issuer {
  readonly issuer: string
  readonly clientId: string
}

export interface SignIn {
  readonly required: boolean
  readonly issuers: readonly Issuer[]
}

/** The token of this tab. `sessionStorage` ends with the tab, and no request sends it by itself. */
const key = 'setpoint.token'

/** The token, or undefined without one. */
export const token = signal<string | undefined>(sessionStorage.getItem(key) ?? undefined)

/** Why the person has to sign in. Undefined while the session is good, or nobody has asked for credentials. */
export const signInReason = signal<string | undefined>(undefined)

export function useToken(given: string): void {
  sessionStorage.setItem(key, given)
  signInReason.value = undefined
  token.value = given
}

/** Asks for credentials. A reason that was given before stands: requests that the end of a session has overtaken say nothing new. */
export function askForSignIn(): void {
  signInReason.value ??= ''
}

/** @param reason for the form that follows */
export function endSession(reason: string): void {
  sessionStorage.removeItem(key)
  token.value = undefined
  signInReason.value = reason
}

/** Returns how people sign in to this server. Servers without this path require nothing that the page knows of. */
export async function readSignIn(): Promise<SignIn> {
  const response = await fetch(apiUrl('/sign-in'))
  if (!response.ok) return { required: false, issuers: [] }
  const { required, issuers } = fieldsOf(await response.json())
  return {
    required: required === true,
    issuers: listOf(issuers).map(each => {
      const { issuer, clientId } = fieldsOf(each)
      return { issuer: textOf(issuer), clientId: textOf(clientId) }
    }),
  }
}
