import { autocompletion, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import {
  foldGutter,
  foldKeymap,
  HighlightStyle,
  indentUnit,
  syntaxHighlighting,
  syntaxTree,
} from '@codemirror/language'
import { type Diagnostic, lintGutter, setDiagnostics } from '@codemirror/lint'
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search'
import { EditorState } from '@codemirror/state'
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from '@codemirror/view'
import { tags } from '@lezer/highlight'
import type { KindSchema } from '../api/schema.ts'
import { schemaCompletion } from './schema-completion.ts'

/** A problem at a line, from 0. */
export interface LineProblem {
  readonly line: number
  readonly message: string
}

export interface EditorOptions {
  readonly parent: HTMLElement
  readonly label: string
  readonly text: string
  readonly schema: KindSchema | undefined
  readonly isReadOnly: boolean
  /** Called after each change by the person, not by `set`. */
  changed(): void
  /** Ctrl-Enter, or Ctrl-S. */
  submit(): void
}

export interface Editor {
  text(): string
  /** Whether the text has comments, which no object can keep. */
  hasComments(): boolean
  set(text: string): void
  mark(problems: readonly LineProblem[]): void
  focus(): void
  destroy(): void
}

const theme = EditorView.theme({
  '&': { color: 'var(--ink)', backgroundColor: 'var(--field)', fontSize: '13px', height: '100%' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-gutters': { color: 'var(--quiet)', backgroundColor: 'var(--field)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--hover)' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-1px' },
  '&.cm-focused .cm-cursor': { borderLeftColor: 'var(--ink)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'var(--selection)',
  },
  '.cm-tooltip': { color: 'var(--ink)', backgroundColor: 'var(--panel)', border: '1px solid var(--line)' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': {
    color: 'var(--on-accent)',
    backgroundColor: 'var(--accent)',
  },
  // In place of images that are data, which the Content-Security-Policy blocks.
  '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--bad)' },
  '.cm-lint-marker-error': { content: '"●"', color: 'var(--bad)', lineHeight: '1.1' },
  '.cm-panels': { color: 'var(--ink)', backgroundColor: 'var(--panel)' },
})

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--key)' },
  { tag: tags.string, color: 'var(--string)' },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: 'var(--literal)' },
  { tag: tags.comment, color: 'var(--quiet)', fontStyle: 'italic' },
])

/**
 * Replaces a selection by what is typed. Left to the browser, text that replaces styled text gets its style inline, which the
 * Content-Security-Policy blocks.
 */
const typing = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { inputType, data, isComposing } = event
    if (inputType !== 'insertText' || data === null || isComposing || view.composing || view.state.readOnly)
      return false
    // Chromium gives no target ranges here, and the editor may not have read the selection yet.
    const selection = document.getSelection()
    if (selection === null || selection.isCollapsed || selection.rangeCount === 0) return false
    const range = selection.getRangeAt(0)
    if (!view.contentDOM.contains(range.commonAncestorContainer)) return false
    const from = view.posAtDOM(range.startContainer, range.startOffset)
    const to = view.posAtDOM(range.endContainer, range.endOffset)
    const insert = view.state.toText(data)
    view.dispatch({
      changes: { from, to, insert },
      selection: { anchor: from + insert.length },
      userEvent: 'input.type',
      scrollIntoView: true,
    })
    event.preventDefault()
    return true
  },
})

export function openEditor({
  parent,
  label,
  text,
  schema,
  isReadOnly,
  changed,
  submit,
}: EditorOptions): Editor {
  let isSetting = false
  const send = () => {
    submit()
    return true
  }
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        foldGutter(),
        lintGutter(),
        history(),
        drawSelection(),
        highlightSpecialChars(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        indentUnit.of('  '),
        yaml(),
        syntaxHighlighting(colours),
        autocompletion({ override: schema === undefined ? [] : [schemaCompletion(schema)] }),
        keymap.of([
          { key: 'Mod-Enter', run: send },
          { key: 'Mod-s', run: send, preventDefault: true },
          ...completionKeymap,
          ...defaultKeymap,
          ...searchKeymap,
          ...historyKeymap,
          ...foldKeymap,
          indentWithTab,
        ]),
        typing,
        EditorView.lineWrapping,
        EditorState.readOnly.of(isReadOnly),
        EditorView.contentAttributes.of({
          'aria-label': label,
          // Says that the keyboard reaches what scrolls.
          tabindex: '0',
          spellcheck: 'false',
          ...(isReadOnly && { 'aria-readonly': 'true' }),
        }),
        EditorView.updateListener.of(update => {
          if (update.docChanged && !isSetting) changed()
        }),
        theme,
      ],
    }),
  })
  return {
    text: () => view.state.doc.toString(),
    hasComments() {
      let found = false
      syntaxTree(view.state).iterate({
        enter({ name }) {
          found ||= name === 'Comment'
        },
      })
      return found
    },
    set(next) {
      if (next === view.state.doc.toString()) return
      isSetting = true
      const { head } = view.state.selection.main
      view.dispatch({
        changes: { from: 0, to: view.state.doc.length, insert: next },
        selection: { anchor: Math.min(head, next.length) },
      })
      isSetting = false
    },
    mark(problems) {
      const { doc } = view.state
      const diagnostics = problems.map(({ line, message }): Diagnostic => {
        const at = doc.line(Math.min(doc.lines, Math.max(1, line + 1)))
        return { from: at.from, to: at.to, severity: 'error', message }
      })
      view.dispatch(setDiagnostics(view.state, diagnostics))
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  }
}
