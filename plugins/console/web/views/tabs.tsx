import { useRef } from 'preact/hooks'

/** Tabs with the keys of the ARIA pattern: arrows, Home and End. */
export function Tabs({
  tabs,
  current,
  choose,
}: {
  tabs: readonly { readonly id: string; readonly title: string }[]
  current: string
  choose: (id: string) => void
}) {
  const list = useRef<HTMLDivElement>(null)
  const move = (event: KeyboardEvent) => {
    const at = tabs.findIndex(({ id }) => id === current)
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key]
    if (to === undefined) return
    event.preventDefault()
    const next = tabs[(to + tabs.length) % tabs.length]
    if (next === undefined) return
    choose(next.id)
    list.current?.querySelector<HTMLElement>(`#tab-${next.id}`)?.focus()
  }
  return (
    <div role="tablist" aria-label="Views" class="tabs" ref={list} onKeyDown={move}>
      {tabs.map(({ id, title }) => (
        <button
          type="button"
          role="tab"
          key={id}
          id={`tab-${id}`}
          aria-selected={id === current}
          {...(id === current && { 'aria-controls': `panel-${id}` })}
          tabIndex={id === current ? 0 : -1}
          onClick={() => choose(id)}
        >
          {title}
        </button>
      ))}
    </div>
  )
}
