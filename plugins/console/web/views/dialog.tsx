import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'

/** A modal dialog. Escape closes it, and the focus returns to where it was. */
export function Dialog({
  title,
  close,
  children,
  isWide = false,
}: {
  title: string
  close: () => void
  children: ComponentChildren
  isWide?: boolean
}) {
  const element = useRef<HTMLDialogElement>(null)
  const id = useId()
  // Not a plain effect, whose end comes after the dialog has gone and the focus with it.
  useLayoutEffect(() => {
    const before = document.activeElement
    const dialog = element.current
    dialog?.showModal()
    return () => {
      // Nothing behind an open dialog can take the focus.
      dialog?.close()
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  return (
    <dialog
      ref={element}
      aria-labelledby={id}
      class={isWide ? 'wide' : ''}
      onCancel={event => {
        event.preventDefault()
        close()
      }}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  )
}
