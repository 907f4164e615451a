// @ts-check
import http from 'node:http'
import https from 'node:https'

/**
 * The second caller, in a process of its own so that the attacker's event loop does not distort what it measures. It
 * sends requests on a schedule, whether or not earlier ones have been served, and a latency counts from the scheduled
 * time.
 *
 * Messages from the parent: `{aim}` (where to), and `{do}` with begin, pause, resume, or end. The reply to end has the
 * readings.
 *
 * @typedef {{ url: string, token: string, getPath: string, listPath: string, timeoutMs: number }} Aim
 * @typedef {{ everyMs: number, atOnce: number, path: string, agent: http.Agent | false, token: string | undefined }}
 * Probe
 * @typedef {{ ms: number[], failures: string[] }} Reading
 */

/** Not the attacker's address. Other systems have only one loopback address by default. */
const localAddress = process.platform === 'linux' ? '127.0.0.2' : undefined

/** @type {Aim | undefined} */
let aim
/** @type {(() => Promise<Record<string, Reading>>) | undefined} */
let end
let isPaused = false
/** Number of pauses. Requests that were open at one do not count. */
let pauses = 0

process.on('message', (/** @type {{ aim?: Aim, do?: string }} */ message) => {
  if (message.aim) aim = message.aim
  if (message.do === 'begin' && aim) end = begin(aim)
  if (message.do === 'pause') pauses++
  if (message.do === 'pause' || message.do === 'resume') isPaused = message.do === 'pause'
  if (message.do === 'end') void end?.().then(readings => process.send?.(readings))
})
process.on('disconnect', () => process.exit())

/** @param {Aim} to */
function begin(to) {
  const { Agent } = to.url.startsWith('https:') ? https : http
  const agent = new Agent({ keepAlive: true })
  const { token } = to
  const probes = {
    // A connection of its own for each, as the kubelet opens.
    livez: start(to, { everyMs: 100, atOnce: 5, path: '/livez', agent: false, token: undefined }),
    get: start(to, { everyMs: 20, atOnce: 8, path: to.getPath, agent, token }),
    list: start(to, { everyMs: 50, atOnce: 4, path: to.listPath, agent, token }),
  }
  return async () => {
    const [livez, get, list] = await Promise.all([probes.livez(), probes.get(), probes.list()])
    agent.destroy()
    return { livez, get, list }
  }
}

/**
 * @param {Aim} to
 * @param {Probe} probe
 * @returns stops and resolves with the reading once all open requests have an outcome
 */
function start(to, probe) {
  /** @type {number[]} */
  const ms = []
  /** @type {string[]} */
  const failures = []
  /** @type {number[]} */
  const due = []
  let open = 0
  let wake = () => {}
  const pump = () => {
    while (open < probe.atOnce) {
      const at = due.shift()
      if (at === undefined) break
      open++
      const begunIn = pauses
      void request(to, probe).then(failure => {
        open--
        if (begunIn === pauses) {
          ms.push(performance.now() - at)
          if (failure !== undefined) failures.push(failure)
        }
        pump()
        wake()
      })
    }
  }
  const timer = setInterval(() => {
    if (isPaused) {
      due.length = 0
      return
    }
    due.push(performance.now())
    pump()
  }, probe.everyMs)
  return async () => {
    clearInterval(timer)
    // Behind slow requests: their age so far is the least that they would have taken.
    for (const at of due.splice(0)) ms.push(performance.now() - at)
    while (open > 0) await new Promise(resolve => (wake = () => resolve(undefined)))
    return { ms, failures }
  }
}

/**
 * @param {Aim} to
 * @param {Probe} probe
 * @returns {Promise<string | undefined>} why it failed
 */
function request({ url, timeoutMs }, { path, agent, token }) {
  return new Promise(resolve => {
    const { get } = url.startsWith('https:') ? https : http
    const sent = get(`${url}${path}`, {
      agent,
      localAddress,
      rejectUnauthorized: false,
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    })
    const timer = setTimeout(() => sent.destroy(new Error(`no response in ${timeoutMs} ms`)), timeoutMs)
    const done = (/** @type {string | undefined} */ failure) => {
      clearTimeout(timer)
      resolve(failure)
    }
    sent.on('error', error => done(String(error)))
    sent.on('response', response => {
      response.on('error', error => done(String(error)))
      response.on('end', () =>
        done(response.statusCode === 200 ? undefined : `status ${response.statusCode}`),
      )
      response.resume()
    })
  })
}
