import * as oauth from 'oauth4webapi'
import { address } from '../route.ts'
import { consoleRoot, pathOf } from './address.ts'
import { fieldsOf, textOf } from './json.ts'
import type { Issuer } from './session.ts'

/** What is kept while the person is at the issuer. */
const key = 'setpoint.sign-in'

/** The address that the issuer sends people back to. It must be registered there. */
const redirectUri = new URL('sign-in', consoleRoot).href

/** Goes to the issuer, with PKCE. @throws Error */
export async function goToIssuer({ issuer, clientId }: Issuer): Promise<void> {
  const server = await discover(issuer)
  if (server.authorization_endpoint === undefined) throw new Error('it has no address to sign in')
  const verifier = oauth.generateRandomCodeVerifier()
  const state = oauth.generateRandomState()
  const nonce = oauth.generateRandomNonce()
  const { pathname, search, hash } = address.value
  const path = pathOf(pathname) === '/sign-in' ? '' : `${pathOf(pathname)}${search}${hash}`
  sessionStorage.setItem(key, JSON.stringify({ issuer, clientId, verifier, state, nonce, path }))
  const url = new URL(server.authorization_endpoint)
  const parameters = {
    client_id: clientId,
    redirect_uri: redirectUri,
    response_type: 'code',
    scope: 'openid profile email groups'
      .split(' ')
      .filter(scope => scope === 'openid' || (server.scopes_supported?.includes(scope) ?? false))
      .join(' '),
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    nonce,
  }
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
  location.assign(url)
}

/** Exchanges the code for the ID token. @throws Error */
export async function returnFromIssuer(url: URL): Promise<{ idToken: string; path: string }> {
  const kept = fieldsOf(JSON.parse(sessionStorage.getItem(key) ?? '{}'))
  sessionStorage.removeItem(key)
  const issuer = textOf(kept.issuer)
  if (issuer === '') throw new Error('This tab has not asked to sign in. Try again.')
  const client = { client_id: textOf(kept.clientId) }
  const server = await discover(issuer)
  const parameters = oauth.validateAuthResponse(server, client, url, textOf(kept.state))
  const response = await oauth.authorizationCodeGrantRequest(
    server,
    client,
    oauth.None(),
    parameters,
    redirectUri,
    textOf(kept.verifier),
  )
  const result = await oauth.processAuthorizationCodeResponse(server, client, response, {
    expectedNonce: textOf(kept.nonce),
    requireIdToken: true,
  })
  if (result.id_token === undefined) throw new Error('The issuer has sent no ID token.')
  return { idToken: result.id_token, path: textOf(kept.path) }
}

async function discover(issuer: string): Promise<oauth.AuthorizationServer> {
  const url = new URL(issuer)
  return oauth.processDiscoveryResponse(url, await oauth.discoveryRequest(url))
}
