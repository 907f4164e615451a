/** Renders the table of flags into docs/reference/flags.md, from the built server. See render-page.mjs. */
import { environmentName } from '../apiserver/dist/cli/flag.js'
import { flagsOf } from '../apiserver/dist/cli/flags-table.js'
import { renderPage } from './render-page.mjs'

renderPage(new URL('../docs/reference/flags.md', import.meta.url), 'scripts/render-flags.mjs', [
  ['Flag', 'Environment', 'Default', 'Meaning'],
  ...flagsOf('serve').map(flag => [
    `\`--${flag.name} ${flag.placeholder}\``,
    `\`${environmentName(flag, 'serve')}\``,
    flag.default === undefined ? '' : `\`${flag.default}\``,
    `${capitalize(flag.description)}${flag.kind === 'repeatable' ? ' (repeatable)' : ''}`,
  ]),
])

/** @param {string} text */
function capitalize(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}
