import { renderMermaidSVG } from 'beautiful-mermaid'

/**
 * Draws a Mermaid diagram as SVG when the site is built, so that the browser loads no program for it. The style sheet of the theme has
 * the colours; the renderer's own would apply to every SVG of the page, and loads a font from elsewhere.
 * @throws Error for a diagram that cannot be parsed
 */
export function drawingOf(code: string): string {
  const svg = renderMermaidSVG(code, { padding: 12, nodeSpacing: 36 }).replace(/<style>[\s\S]*?<\/style>/, '')
  return `<figure class="diagram" v-pre>${svg.replace(/ style="[^"]*"/, '')}</figure>\n`
}
