import { relative } from 'node:path'
import type { MarkdownRenderer } from 'vitepress'
import { drawingOf } from './diagrams.ts'
import { addressOf } from './pages.ts'

/** How the site renders the repository's Markdown. @param root the folder of the repository */
export function extend(md: MarkdownRenderer, root: string): void {
  links(md, root)
  fences(md)
  literals(md)
}

/** Makes links between files links between pages. A link to a source becomes its text, since the site has no sources. */
function links(md: MarkdownRenderer, root: string): void {
  md.core.ruler.push('setpoint-links', ({ tokens, env }) => {
    const file = relative(root, env.realPath ?? env.path)
    for (const { children } of tokens) {
      let isText = false
      for (const token of children ?? []) {
        if (token.type === 'link_close' && isText) {
          token.tag = 'span'
          isText = false
        }
        const href = token.type === 'link_open' ? token.attrGet('href') : null
        if (href === null || /^[a-z]+:/.test(href)) continue
        const address = addressOf(file, href)
        if (address !== undefined) token.attrSet('href', address)
        else {
          token.tag = 'span'
          token.attrs = []
          isText = true
        }
      }
    }
  })
}

/** Draws diagrams, and shows the name of a file that the reader creates. */
function fences({ renderer }: MarkdownRenderer): void {
  const { fence } = renderer.rules
  renderer.rules.fence = (tokens, at, options, env, self) => {
    const token = tokens[at]
    if (token === undefined) return ''
    const [language, ...marks] = token.info.trim().split(/\s+/)
    if (language === 'mermaid') return drawingOf(token.content)
    // The highlighter does not know it.
    if (language === 'promql') token.info = 'text'
    const name = marks.find(mark => /^[\w./-]+\.\w+$/.test(mark) && !mark.startsWith('/'))
    const code = fence?.(tokens, at, options, env, self) ?? ''
    return name === undefined ? code : `<div class="file-name" v-pre>${name}</div>${code}`
  }
}

/** Shows text as it is: no placeholders of Vue, and no elements but the few that the pages use, as in `Site<Spec>`. */
function literals({ renderer, utils }: MarkdownRenderer): void {
  const { text } = renderer.rules
  renderer.rules.text = (tokens, at, options, env, self) =>
    (text?.(tokens, at, options, env, self) ?? '').replaceAll('{{', '&#123;&#123;')
  renderer.rules.html_inline = renderer.rules.html_block = (tokens, at) => {
    const { content = '' } = tokens[at] ?? {}
    if (content.startsWith('<!--')) return ''
    return /^<\/?(br|details|summary)\b/.test(content) ? content : utils.escapeHtml(content)
  }
}
