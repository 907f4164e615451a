/** Renders the table of the chart's values into its README, from values.yaml and its comments. See render-page.mjs. */
import { readFileSync } from 'node:fs'
import { dump, load } from 'js-yaml'
import { renderPage } from './render-page.mjs'

const chart = new URL('../charts/setpoint/', import.meta.url)
const text = readFileSync(new URL('values.yaml', chart), 'utf8')
const schema = JSON.parse(readFileSync(new URL('values.schema.json', chart), 'utf8'))
const comments = commentsOf(text)

renderPage(new URL('README.md', chart), 'scripts/render-chart.mjs', [
  ['Value', 'Default', 'Meaning'],
  ...rowsOf(/** @type {object} */ (load(text)), schema, ''),
])

/**
 * A value whose schema declares properties has a row for each of them, and one of its own if it has a comment.
 * @param {object} values
 * @param {{ properties: Record<string, any> }} schema
 * @param {string} prefix
 * @returns {string[][]}
 */
function rowsOf(values, { properties }, prefix) {
  return Object.entries(values).flatMap(([key, value]) => {
    const name = prefix + key
    const comment = comments.get(name) ?? ''
    const own = properties[key]
    if (own.properties === undefined || textOf(value) === '`{}`')
      return [[`\`${name}\``, textOf(value), comment]]
    const rows = rowsOf(value, own, `${name}.`)
    return comment === '' ? rows : [[`\`${name}\``, '', comment], ...rows]
  })
}

/** @param {unknown} value */
function textOf(value) {
  if (value === null) return ''
  return `\`${dump(value, { flowLevel: 0, lineWidth: -1 }).trim()}\``
}

/**
 * Returns the comments above the keys of a YAML text, by their paths.
 * @param {string} text
 */
function commentsOf(text) {
  /** @type {Map<string, string>} */
  const comments = new Map()
  /** @type {string[]} */
  let path = []
  /** @type {string[]} */
  let above = []
  for (const line of text.split('\n')) {
    const [, indent = '', comment, key] = /^( *)(?:# (.*)|([A-Za-z]+):.*)$/.exec(line) ?? []
    if (comment !== undefined) {
      above.push(comment)
      continue
    }
    if (key !== undefined) {
      path = [...path.slice(0, indent.length / 2), key]
      if (above.length > 0) comments.set(path.join('.'), above.join(' '))
    }
    above = []
  }
  return comments
}
