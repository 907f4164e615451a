/** Renders the table of error reasons into docs/reference/errors.md, from the built SDK. See render-page.mjs. */
import { statusReasons } from '../controller-runtime/dist/api/errors.js'
import { renderPage } from './render-page.mjs'

renderPage(new URL('../docs/reference/errors.md', import.meta.url), 'scripts/render-errors.mjs', [
  ['Code', 'Reason', 'Meaning'],
  ...Object.entries(statusReasons).map(([reason, { code, meaning }]) => [
    String(code),
    `\`${reason}\``,
    meaning,
  ]),
])
