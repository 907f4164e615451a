/**
 * The health check of the container image: asks /livez of the program in the same container, and exits with 0 where
 * that answers 200, else with 1 and a line that says why.
 *
 * It looks for the address where the program does: `SETPOINT_LISTEN`, or for the role controllers
 * `SETPOINT_HEALTH_LISTEN`, and `SETPOINT_BASE_PATH`. A port that does not speak HTTP is asked over HTTPS, where the
 * certificate does not count: it is made for other names than that of the loopback.
 */
import http from 'node:http'
import https from 'node:https'

const { SETPOINT_ROLE, SETPOINT_LISTEN, SETPOINT_HEALTH_LISTEN, SETPOINT_BASE_PATH } = process.env
const isController = SETPOINT_ROLE === 'controllers'
const address = (isController ? SETPOINT_HEALTH_LISTEN : SETPOINT_LISTEN) || '127.0.0.1:8090'
const basePath = isController ? '' : (SETPOINT_BASE_PATH ?? '').replace(/\/$/, '')
// An address that means all of them is reached by the loopback.
const authority = address.replace(/^0\.0\.0\.0:/, '127.0.0.1:').replace(/^\[::\]:/, '[::1]:')

function ask(protocol) {
  return new Promise((resolve, reject) => {
    const url = `${protocol === https ? 'https' : 'http'}://${authority}${basePath}/livez`
    const request = protocol.get(url, { timeout: 3_000, rejectUnauthorized: false }, response => {
      response.resume()
      response.once('end', () => resolve({ url, status: response.statusCode }))
    })
    request.once('timeout', () => request.destroy(new Error('no answer within 3 s')))
    request.once('error', reject)
  })
}

try {
  const { url, status } = await ask(http).catch(() => ask(https))
  if (status !== 200) throw new Error(`${url} answered ${status}`)
} catch (error) {
  console.error(error.message)
  process.exitCode = 1
}
