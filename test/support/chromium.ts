import { type ChildProcess, spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { findChromium } from '../../scripts/chromium.mjs'
import { type Fields, fieldsOf, isFields } from './json.ts'
import { killAtExit } from './kill-at-exit.js'
import { need } from './tools.ts'

await need(findChromium)

/** Drives a headless Chromium by its DevTools protocol, over a pipe. */

const flags = [
  ...['--headless', '--remote-debugging-pipe', '--no-first-run', '--disable-background-networking'],
  ...['--disable-gpu', '--disable-software-rasterizer', '--disable-dev-shm-usage'],
  // The sandbox needs root or user namespaces. Tests open pages of their own only.
  '--no-sandbox',
]

export class Chromium {
  readonly #child: ChildProcess
  readonly #profile: string
  readonly #input: Writable
  /** Emits events by their session and name, and results by the number of their command. */
  readonly #messages = new EventEmitter({ captureRejections: true })
  #commands = 0

  private constructor(child: ChildProcess, profile: string) {
    const [, , , input, output] = child.stdio
    if (!(input instanceof Writable) || !(output instanceof Readable)) throw new Error('Chromium has no pipe')
    this.#child = child
    this.#profile = profile
    this.#input = input
    this.#messages.setMaxListeners(0)
    let text = ''
    output.setEncoding('utf8').on('data', (part: string) => {
      const documents = (text + part).split('\0')
      text = documents.pop() ?? ''
      for (const document of documents) this.#receive(fieldsOf(JSON.parse(document)))
    })
  }

  /** @param hosts names that resolve to this machine */
  static async open(hosts: readonly string[] = []): Promise<Chromium> {
    const profile = await mkdtemp(join(tmpdir(), 'setpoint-chromium-'))
    const rules = hosts.map(host => `MAP ${host} 127.0.0.1`).join(', ')
    const args = [...flags, `--user-data-dir=${profile}`, `--host-resolver-rules=${rules}`, 'about:blank']
    const child = spawn(await findChromium(), args, { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] })
    killAtExit(child)
    return new Chromium(child, profile)
  }

  /** Opens a URL in a new tab, and resolves when it has loaded. */
  async page(url: string): Promise<Page> {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' })
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true })
    const page = new Page(this, String(sessionId))
    await page.open(url)
    return page
  }

  /** Sends a command, and resolves with its result. @throws Error with Chromium's message */
  async send(method: string, params: Fields = {}, sessionId?: string): Promise<Fields> {
    const id = ++this.#commands
    const replied = once(this.#messages, `result ${id}`)
    this.#input.write(`${JSON.stringify({ id, method, params, ...(sessionId && { sessionId }) })}\0`)
    const [{ error, result }] = await replied
    if (isFields(error)) throw new Error(`${method}: ${error.message}`)
    return fieldsOf(result)
  }

  on(sessionId: string, event: string, listener: (params: Fields) => void): void {
    this.#messages.on(`${sessionId} ${event}`, listener)
  }

  async close(): Promise<void> {
    const exited = once(this.#child, 'exit')
    this.#input.write(`${JSON.stringify({ id: ++this.#commands, method: 'Browser.close' })}\0`)
    await exited
    await rm(this.#profile, { recursive: true, force: true, maxRetries: 5 })
  }

  #receive(message: Fields): void {
    if (message.id === undefined)
      this.#messages.emit(`${message.sessionId} ${message.method}`, fieldsOf(message.params))
    else this.#messages.emit(`result ${message.id}`, message)
  }
}

/** A tab. */
export class Page {
  /** Errors in the console: exceptions, failed requests, and what the page has logged as an error. */
  readonly errors: string[] = []
  readonly #browser: Chromium
  readonly #session: string

  constructor(browser: Chromium, session: string) {
    this.#browser = browser
    this.#session = session
    const note = (event: string, describe: (params: Fields) => string | undefined) =>
      browser.on(session, event, params => {
        const error = describe(params)
        if (error !== undefined) this.errors.push(error)
      })
    note('Runtime.exceptionThrown', ({ exceptionDetails }) => JSON.stringify(exceptionDetails))
    note('Runtime.consoleAPICalled', ({ type, args }) =>
      type === 'error' ? JSON.stringify(args) : undefined,
    )
    note('Log.entryAdded', ({ entry }) => {
      const { level, text, url } = fieldsOf(entry)
      return level === 'error' ? `${text} ${url}` : undefined
    })
  }

  async open(url: string): Promise<void> {
    for (const domain of ['Page', 'Runtime', 'Log']) await this.#send(`${domain}.enable`)
    const loaded = new Promise<void>(resolve =>
      this.#browser.on(this.#session, 'Page.loadEventFired', () => resolve()),
    )
    const { errorText } = await this.#send('Page.navigate', { url })
    if (errorText !== undefined) throw new Error(`${url}: ${errorText}`)
    await loaded
  }

  /** Resolves with the JSON value of an expression, or of its promise. @throws Error if it throws */
  async evaluate(expression: string): Promise<unknown> {
    const { result, exceptionDetails } = await this.#send('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
      userGesture: true,
    })
    if (isFields(exceptionDetails)) throw new Error(JSON.stringify(exceptionDetails))
    return fieldsOf(result).value
  }

  /** Shows the page on a phone with a screen of this width, in pixels. */
  async onPhone(width: number): Promise<void> {
    const screen = { width, height: 2 * width, deviceScaleFactor: 1, mobile: true }
    await this.#send('Emulation.setDeviceMetricsOverride', screen)
  }

  /** Fills in the fields of a form, by their names, and submits it. */
  async submit(form: string, fields: Readonly<Record<string, string>>): Promise<void> {
    await this.evaluate(`{
      const form = document.querySelector(${JSON.stringify(form)})
      for (const [name, value] of Object.entries(${JSON.stringify(fields)})) form.elements[name].value = value
      form.requestSubmit()
    }`)
  }

  /** Returns the text of every element that a selector finds. */
  texts(selector: string): Promise<unknown> {
    return this.evaluate(
      `[...document.querySelectorAll(${JSON.stringify(selector)})].map(each => each.textContent)`,
    )
  }

  #send(method: string, params?: Fields): Promise<Fields> {
    return this.#browser.send(method, params, this.#session)
  }
}
