import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContextOptions, chromium, type Locator, type Page } from 'playwright-core'
import { onTestFinished } from 'vitest'
import { findChromium } from '../../scripts/chromium.mjs'
import { need } from './tools.ts'

await need(findChromium)

/** Drives the console in Chromium, by what it says to people with screen readers. */

export const shopPlugin = fileURLToPath(new URL('../fixtures/shop-plugin', import.meta.url))
export const gadgets = '/apis/shop.example.com/v1/gadgets'

export async function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: await findChromium(), args: ['--no-sandbox', '--disable-gpu'] })
}

/** A tab with the console. */
export class ConsolePage {
  readonly page: Page
  /** Errors in the console of the browser, such as exceptions and what the Content-Security-Policy has blocked. */
  readonly errors: string[] = []
  readonly #url: string

  private constructor(page: Page, url: string) {
    this.page = page
    this.#url = url
    page.on('pageerror', error => this.errors.push(String(error.stack)))
    page.on('console', message => {
      if (message.type() === 'error') this.errors.push(message.text())
    })
  }

  /** @param url of the server, with its base path */
  static async open(
    browser: Browser,
    url: string,
    path = '',
    options: BrowserContextOptions & { readonly token?: string } = {},
  ): Promise<ConsolePage> {
    const { token, ...rest } = options
    const context = await browser.newContext({
      viewport: { width: 1280, height: 800 },
      locale: 'en-GB',
      ...rest,
    })
    // Pages that stay open go on drawing what changes.
    onTestFinished(() => context.close())
    if (token !== undefined)
      await context.addInitScript(`sessionStorage.setItem('setpoint.token', '${token}')`)
    const opened = new ConsolePage(await context.newPage(), url)
    await opened.go(path)
    return opened
  }

  async go(path: string): Promise<void> {
    await this.page.goto(`${this.#url}/console${path}`)
  }

  close(): Promise<void> {
    return this.page.context().close()
  }

  /** The path below the console. */
  get path(): string {
    const { pathname, search, hash } = new URL(this.page.url())
    return `${pathname}${search}${hash}`.slice(new URL(`${this.#url}/console`).pathname.length)
  }

  heading(): Promise<string> {
    return this.page.getByRole('heading', { level: 1 }).innerText()
  }

  status(name: string): Promise<string> {
    return this.page.getByRole('status', { name }).innerText()
  }

  alerts(): Promise<string[]> {
    return this.page.getByRole('alert').allInnerTexts()
  }

  kinds(): Promise<string[]> {
    return this.page.getByRole('navigation', { name: 'Kinds' }).getByRole('link').allInnerTexts()
  }

  /** The number of objects that stands beside a kind. */
  kindCount(plural: string): Promise<string> {
    const item = this.page.getByRole('navigation', { name: 'Kinds' }).getByRole('listitem')
    const link = this.page.getByRole('link', { name: plural, exact: true })
    return item.filter({ has: link }).locator('.count').innerText()
  }

  columns(): Promise<string[]> {
    return this.page.getByRole('columnheader').allInnerTexts()
  }

  /** The names of the objects in the table, in its order. */
  names(): Promise<string[]> {
    return this.page.locator('tbody').getByRole('link').allInnerTexts()
  }

  row(name: string): Locator {
    return this.page.getByRole('row').filter({ has: this.page.getByRole('link', { name, exact: true }) })
  }

  button(name: string): Locator {
    return this.page.getByRole('button', { name, exact: true })
  }

  tab(name: string): Locator {
    return this.page.getByRole('tab', { name, exact: true })
  }

  editor(): Locator {
    return this.page.getByRole('textbox', { name: 'YAML', exact: true })
  }

  dialog(name: RegExp | string): Locator {
    return this.page.getByRole('dialog', { name })
  }

  /** Writes a filter and uses it. */
  async filter(text: string): Promise<void> {
    const field = this.page.getByRole('textbox', { name: 'Filter' })
    await field.fill(text)
    await field.press('Enter')
  }
}

/** Returns a gadget as a client sends it. */
export function gadget(name: string, spec: Readonly<Record<string, unknown>> = {}) {
  return {
    apiVersion: 'shop.example.com/v1',
    kind: 'Gadget',
    metadata: { name },
    spec: { email: `${name}@example.com`, ...spec },
  }
}

/** Returns what axe-core finds in the page. */
export async function findingsOfAxe({ page }: ConsolePage): Promise<string[]> {
  // In a world of its own, since the page's policy allows no other code.
  await page.evaluate(await axe)
  const found: unknown = await page.evaluate(
    `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
      .then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html.slice(0, 200)).join(' | ')))`,
  )
  return Array.isArray(found) ? found.map(String) : [String(found)]
}

const axe = readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
