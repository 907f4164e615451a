import { resolve } from 'node:path'
import { pages } from './plugin.js'

// For other plugins and programs, which import the kind from this package.
export { Page } from './page.js'

/** What the server loads: `exports` in package.json names this module. */
export default pages(resolve(process.env.SITE_DIR || 'site'))
