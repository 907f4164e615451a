import { resolve } from 'node:path'
import { pages } from './plugin.ts'

// For other plugins and programs, which import the kind's types from this package.
export { Page, type PageObject } from './page.ts'

/** What the server loads: `exports` in package.json names this module. */
export default pages(resolve(process.env.SITE_DIR || 'site'))
