/**
 * Writes generated tables between the markers of a documentation page.
 *
 *     node scripts/render-errors.mjs            writes the page
 *     node scripts/render-errors.mjs --check    exits with 1 if the page is out of date
 */
import { readFileSync, writeFileSync } from 'node:fs'

/**
 * @param {URL} page the file
 * @param {string} script the renderer's name in the markers
 * @param {readonly (readonly string[])[]} rows the table's rows, with the header first
 */
export function renderPage(page, script, rows) {
  renderText(page, script, tableOf(rows))
}

/**
 * @param {URL} page the file
 * @param {string} script the renderer's name in the markers
 * @param {string} text what stands between the markers, with a line break at its end
 */
export function renderText(page, script, text) {
  const begin = `<!-- rendered by ${script}: begin -->`
  const end = `<!-- rendered by ${script}: end -->`
  const before = readFileSync(page, 'utf8')
  const from = before.indexOf(begin)
  const to = before.indexOf(end)
  if (from < 0 || to < from) throw new Error(`${page.pathname} has no markers of ${script}`)
  const after = `${before.slice(0, from)}${begin}\n\n${text}\n${before.slice(to)}`
  if (!process.argv.includes('--check')) writeFileSync(page, after)
  else if (after !== before) {
    console.error(`${page.pathname} is out of date: run \`node ${script}\``)
    process.exitCode = 1
  }
}

/**
 * Aligns the columns as the formatter does.
 * @param {readonly (readonly string[])[]} rows
 */
export function tableOf([header = [], ...rows]) {
  const cells = [header, ...rows].map(row => row.map(cell => cell.replaceAll('|', '\\|')))
  const widths = header.map((_, column) => Math.max(...cells.map(row => row[column]?.length ?? 0)))
  const line = row => `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`
  const [head = [], ...body] = cells
  return `${[head, widths.map(width => '-'.repeat(width)), ...body].map(line).join('\n')}\n`
}
