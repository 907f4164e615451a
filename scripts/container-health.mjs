/**
 * The health check of the container image: requests /livez from the program in the same container. Exits with 0 on
 * status 200, else with 1 and an error message.
 *
 * It reads the same variables as the program: `SETPOINT_LISTEN`, or `SETPOINT_HEALTH_LISTEN` for the role controllers,
 * and `SETPOINT_BASE_PATH`. If the port does not speak HTTP, it uses HTTPS and ignores the certificate, which does not
 * name the loopback address.
 */
import http from 'node:http'
import https from 'node:https'

const { SETPOINT_ROLE, SETPOINT_LISTEN, SETPOINT_HEALTH_LISTEN, SETPOINT_BASE_PATH } = process.env
const isController = SETPOINT_ROLE === 'controllers'
const address = (isController ? SETPOINT_HEALTH_LISTEN : SETPOINT_LISTEN) || '127.0.0.1:8090'
const basePath = isController ? '' : (SETPOINT_BASE_PATH ?? '').replace(/\/$/, '')
// The loopback reaches a wildcard address.
const authority = address.replace(/^0\.0\.0\.0:/, '127.0.0.1:').replace(/^\[::\]:/, '[::1]:')

function ask(protocol) {
  return new Promise((resolve, reject) => {
    const url = `${protocol === https ? 'https' : 'http'}://${authority}${basePath}/livez`
    const request = protocol.get(url, { timeout: 3_000, rejectUnauthorized: false }, response => {
      response.resume()
      response.once('end', () => resolve({ url, status: response.statusCode }))
    })
    request.once('timeout', () => request.destroy(new Error('no response within 3 s')))
    request.once('error', reject)
  })
}

try {
  const { url, status } = await ask(http).catch(() => ask(https))
  if (status !== 200) throw new Error(`${url} responded with ${status}`)
} catch (error) {
  console.error(error.message)
  process.exitCode = 1
}
