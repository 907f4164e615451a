import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiFailure, wordsOf } from '../api/http.ts'
import type { KindSchema } from '../api/schema.ts'
import type { Editor, LineProblem } from '../editor/editor.ts'

export interface EditorHandle {
  text(): string
  /** Sets the text, which does not count as a change by the person. */
  set(text: string): void
  /** Shows the places that an error names. Undefined: none. */
  mark(error: unknown): void
}

/** The editor, which is loaded when it is needed first. */
export function YamlEditor({
  label,
  initial,
  schema,
  handle,
  isReadOnly = false,
  focuses = false,
  changed = () => {},
  submit = () => {},
}: {
  label: string
  initial: string
  schema: KindSchema | undefined
  handle: { current: EditorHandle | undefined }
  isReadOnly?: boolean
  focuses?: boolean
  changed?: () => void
  submit?: () => void
}) {
  const parent = useRef<HTMLDivElement>(null)
  const calls = useRef({ changed, submit })
  calls.current = { changed, submit }
  const [failure, setFailure] = useState('')
  const [hasComments, setHasComments] = useState(false)
  useEffect(() => {
    let editor: Editor | undefined
    let isGone = false
    void Promise.all([import('../editor/editor.ts'), import('../editor/yaml-path.ts')]).then(
      ([{ openEditor }, { lineOfField }]) => {
        if (isGone || parent.current === null) return
        const opened = openEditor({
          parent: parent.current,
          label,
          text: initial,
          schema,
          isReadOnly,
          changed() {
            setHasComments(opened.hasComments())
            calls.current.changed()
          },
          submit: () => calls.current.submit(),
        })
        editor = opened
        setHasComments(opened.hasComments())
        if (focuses) opened.focus()
        handle.current = {
          text: opened.text,
          set(text) {
            opened.set(text)
            setHasComments(opened.hasComments())
          },
          mark: error =>
            opened.mark(problemsOf(error, field => lineOfField(opened.text().split('\n'), field))),
        }
      },
      (error: unknown) => setFailure(wordsOf(error)),
    )
    return () => {
      isGone = true
      handle.current = undefined
      editor?.destroy()
    }
  }, [schema, isReadOnly])
  if (failure !== '')
    return (
      <div role="alert" class="alert">
        The editor could not be loaded: {failure}
      </div>
    )
  return (
    <>
      <div ref={parent} class="editor" />
      {hasComments && (
        <p class="quiet beside">Comments are not kept: the server stores objects, not their text.</p>
      )}
    </>
  )
}

function problemsOf(error: unknown, lineOf: (field: string) => number): LineProblem[] {
  if (error === undefined) return []
  if (error instanceof ApiFailure && error.causes.length > 0)
    return error.causes.map(({ field, message }) => ({ line: lineOf(field), message }))
  if (error instanceof Error && 'line' in error && typeof error.line === 'number')
    return [{ line: error.line, message: error.message }]
  return []
}
