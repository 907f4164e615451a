/** Renders the tables of flags, by area, into docs/reference/flags.md, from the built server. See render-page.mjs. */
import { environmentName } from '../apiserver/dist/cli/flag.js'
import { areas, flagsOf } from '../apiserver/dist/cli/flags-table.js'
import { renderText, tableOf } from './render-page.mjs'

const serve = flagsOf('serve')
const starts = areas.map(({ first }) => serve.indexOf(first))
const parts = areas.map(({ title }, at) => {
  const rows = serve
    .slice(starts[at], starts[at + 1])
    .map(flag => [
      `\`--${flag.name} ${flag.placeholder}\`<br>\`${environmentName(flag, 'serve')}\``,
      flag.default === undefined ? '' : `\`${flag.default}\``,
      `${capitalize(flag.description)}${flag.kind === 'repeatable' ? ' (repeatable)' : ''}`,
    ])
  return `### ${title}\n\n${tableOf([['Flag, and its variable', 'Default', 'Meaning'], ...rows])}`
})

renderText(
  new URL('../docs/reference/flags.md', import.meta.url),
  'scripts/render-flags.mjs',
  parts.join('\n'),
)

/** @param {string} text */
function capitalize(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}
