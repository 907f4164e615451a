import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { pathOfKind } from '../api/discovery.ts'
import { get } from '../api/http.ts'
import { fieldsOf, listOf, textOf } from '../api/json.ts'
import { endSession, token } from '../api/session.ts'
import { pathOfListed, type World } from '../app-state.ts'
import { go } from '../route.ts'

interface Target {
  readonly title: string
  readonly about: string
  readonly run: () => void
}

/** Kinds whose objects are looked for by name. */
const searchedKinds = 40
const shownTargets = 12

/** Goes to a kind, an object by the beginning of its name, or an action. */
export function GoTo({ world }: { world: World }) {
  const [text, setText] = useState('')
  const [isOpen, setOpen] = useState(false)
  const [at, setAt] = useState(0)
  const field = useRef<HTMLInputElement>(null)
  const fixed = useMemo(() => fixedTargets(world), [world])
  const objects = useObjects(text, world)
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== 'k') return
      event.preventDefault()
      field.current?.focus()
      field.current?.select()
      setOpen(true)
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  }, [])
  const wanted = text.trim().toLowerCase()
  const targets = [
    ...fixed
      .filter(({ names }) => names.some(name => name.includes(wanted)))
      .sort((a, b) => rank(a, wanted) - rank(b, wanted)),
    ...objects,
  ].slice(0, shownTargets)
  const choose = (target: Target | undefined) => {
    if (target === undefined) return
    setText('')
    setOpen(false)
    field.current?.blur()
    target.run()
    document.getElementById('main')?.focus()
  }
  const key = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') setAt(Math.min(at + 1, targets.length - 1))
    else if (event.key === 'ArrowUp') setAt(Math.max(0, at - 1))
    else if (event.key === 'Enter') choose(targets[at])
    else if (event.key === 'Escape') setOpen(false)
    else return
    event.preventDefault()
  }
  const isShown = isOpen && targets.length > 0
  return (
    <search class="go-to">
      <input
        ref={field}
        type="text"
        role="combobox"
        aria-label="Go to"
        aria-expanded={isShown}
        aria-controls="go-to-list"
        aria-autocomplete="list"
        {...(isShown && { 'aria-activedescendant': `go-to-${at}` })}
        placeholder="Go to…  Ctrl K"
        value={text}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value)
          setAt(0)
          setOpen(true)
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={key}
      />
      <div id="go-to-list" role="listbox" aria-label="Targets" hidden={!isShown}>
        {targets.map((target, index) => (
          <div
            key={`${target.about} ${target.title}`}
            id={`go-to-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            onPointerDown={event => event.preventDefault()}
            onPointerMove={() => setAt(index)}
            onClick={() => choose(target)}
            onKeyDown={() => {}}
          >
            <bdi>{target.title}</bdi> <span class="about">{target.about}</span>
          </div>
        ))}
      </div>
    </search>
  )
}

interface FixedTarget extends Target {
  readonly names: readonly string[]
}

function fixedTargets({ listed }: World): FixedTarget[] {
  const kinds = listed.map(each => {
    const { plural, singular, kind, group, shortNames } = each.kind
    return {
      title: plural,
      about: group === '' ? 'kind' : `kind of ${group}`,
      names: [plural, singular, kind, ...shortNames, `${plural}.${group}`].map(name => name.toLowerCase()),
      run: () => go(pathOfListed(each)),
    }
  })
  const action = (title: string, run: () => void): FixedTarget => ({
    title,
    about: 'action',
    names: [title.toLowerCase()],
    run,
  })
  return [
    ...kinds,
    action('Home', () => go('')),
    action('System: plugins, store, metrics', () => go('/system')),
    action('API reference', () => go('/reference')),
    ...(token.value === undefined ? [] : [action('Sign out', () => endSession('You have signed out.'))]),
  ]
}

/** Names that are the text come first, then those that begin with it. */
function rank({ names }: FixedTarget, wanted: string): number {
  if (names.includes(wanted)) return 0
  return names.some(name => name.startsWith(wanted)) ? 1 : 2
}

/** Looks for objects whose names begin with the text. */
function useObjects(text: string, { listed }: World): Target[] {
  const [found, setFound] = useState<Target[]>([])
  useEffect(() => {
    const prefix = text.trim()
    if (!/^[a-z0-9][a-z0-9.-]+$/.test(prefix)) {
      setFound([])
      return
    }
    const stopping = new AbortController()
    const timer = setTimeout(async () => {
      const lists = await Promise.all(
        listed.slice(0, searchedKinds).map(async each => {
          const selector = encodeURIComponent(`metadata.name>=${prefix},metadata.name<${prefix}~`)
          const path = `${pathOfListed(each)}?fieldSelector=${selector}&sort=metadata.name,asc&size=5`
          const { items } = await get(path, { signal: stopping.signal }).catch(() => ({ items: [] }))
          return listOf(items).map(item => {
            const { name, namespace } = fieldsOf(fieldsOf(item).metadata)
            const within = textOf(namespace)
            return {
              title: textOf(name),
              about: `${each.kind.kind}${within === '' ? '' : ` in ${within}`}`,
              run: () => go(pathOfKind(each.kind, within || undefined, textOf(name))),
            }
          })
        }),
      )
      if (!stopping.signal.aborted) setFound(lists.flat())
    }, 150)
    return () => {
      clearTimeout(timer)
      stopping.abort()
    }
  }, [text, listed])
  return found
}
