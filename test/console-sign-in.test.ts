import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { makeCertificates } from './support/certificates.ts'
import { ConsolePage, gadgets, openBrowser, shopPlugin } from './support/console-browser.ts'
import { freePort } from './support/ports.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'

/** Signing in to the console with OpenID Connect, at a real issuer. */

const clientId = 'console'

let browser: Browser
let issuer: Server
let server: RunningServer

beforeAll(async () => {
  browser = await openBrowser()
  const certificates = await makeCertificates()
  const [cert, key] = await Promise.all([readFile(certificates.cert), readFile(certificates.key)])
  issuer = createServer({ cert, key })
  await once(issuer.listen(await freePort(), '127.0.0.1'), 'listening')
  const { port } = issuer.address() as AddressInfo
  const url = `https://127.0.0.1:${port}`
  const args = ['--oidc-issuer', url, '--oidc-audience', clientId, '--oidc-ca', certificates.ca]
  server = await startSharedServer({ plugins: [shopPlugin], args: [...args, '--oidc-username-prefix', '-'] })
  const provider = new Provider(url, {
    clients: [
      {
        client_id: clientId,
        application_type: 'native',
        token_endpoint_auth_method: 'none',
        redirect_uris: [`${server.url}/console/sign-in`],
        grant_types: ['authorization_code'],
        response_types: ['code'],
      },
    ],
    clientBasedCORS: (_ctx, origin) => origin === server.url,
    pkce: { required: () => true },
    // Its defaults are reported.
    ttl: {
      AccessToken: 600,
      AuthorizationCode: 60,
      Grant: 600,
      IdToken: 600,
      Interaction: 600,
      Session: 600,
    },
  })
  const handle = provider.callback()
  issuer.on('request', (message, response) => void handle(message, response))
})
afterAll(async () => {
  await browser?.close()
  await server?.stop()
  issuer?.closeAllConnections()
  issuer?.close()
})

it('leads to the issuer and back to the page that was asked for, with the ID token in the tab alone', async () => {
  const page = await ConsolePage.open(browser, server.url, gadgets, { ignoreHTTPSErrors: true })
  await page.page.getByRole('button', { name: /^Sign in with 127\.0\.0\.1/ }).click()
  await page.page.locator('input[name=login]').fill('ann')
  await page.page.locator('input[name=password]').fill('anything')
  await page.page.locator('button[type=submit]').click()
  await page.page.getByRole('button', { name: 'Continue' }).click()
  await page.button('Sign out').waitFor()
  expect(page.path).toBe(gadgets)
  await expect.poll(() => page.page.getByRole('banner').innerText()).toContain('ann')
  // Nobody has given her a role.
  await expect.poll(() => page.alerts()).toEqual([expect.stringContaining('"ann" cannot list')])
  expect(await page.page.evaluate('[Object.keys(sessionStorage), document.cookie, location.search]')).toEqual(
    [['setpoint.token'], '', ''],
  )
})
