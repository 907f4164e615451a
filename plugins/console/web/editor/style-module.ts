import { StyleModule as Original } from 'style-mod'

const mounted = new Map<Original, CSSStyleSheet>()

/** CodeMirror's styles as constructed style sheets, which need no `unsafe-inline`. */
export class StyleModule extends Original {
  static override mount(
    root: Document | ShadowRoot | DocumentOrShadowRoot,
    modules: Original | readonly Original[],
  ): void {
    const sheets = [modules].flat().map(each => {
      const module = each as Original
      const known = mounted.get(module)
      if (known !== undefined) return known
      const sheet = new CSSStyleSheet()
      sheet.replaceSync(module.getRules())
      mounted.set(module, sheet)
      return sheet
    })
    // The list is in the order of precedence, and may have got new modules in the middle.
    const others = root.adoptedStyleSheets.filter(sheet => !sheets.includes(sheet))
    const next = [...others, ...sheets]
    if (next.some((sheet, at) => sheet !== root.adoptedStyleSheets[at])) root.adoptedStyleSheets = next
  }
}
