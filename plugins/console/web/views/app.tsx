import { useEffect, useRef } from 'preact/hooks'
import { signInReason } from '../api/session.ts'
import { notice, place, start, type World } from '../app-state.ts'
import { address } from '../route.ts'
import { Collection } from './collection.tsx'
import { Header } from './header.tsx'
import { Home } from './home.tsx'
import { Kinds } from './kinds.tsx'
import { lazy } from './lazy.tsx'
import { ObjectPage } from './object.tsx'
import { SignInForm } from './sign-in.tsx'
import { System } from './system.tsx'

/** Loaded when someone opens it. */
const Reference = lazy(async () => (await import('./reference.tsx')).Reference)

/** The frame: the header, the kinds, and what the address shows. */
export function App() {
  const needsSignIn =
    signInReason.value !== undefined ||
    place.value?.at === 'sign-in' ||
    address.value.searchParams.has('code')
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
        Skip to the content
      </button>
      <Header />
      <div class="frame">
        {start.value.is === 'ready' && !needsSignIn && <Kinds world={start.value.world} />}
        <main id="main" tabIndex={-1}>
          {needsSignIn ? <SignInForm /> : <Content />}
        </main>
      </div>
      <Notices />
    </>
  )
}

function Content() {
  const { value } = start
  if (value.is === 'loading') return <p class="quiet">Loading…</p>
  if (value.is === 'failed')
    return (
      <div role="alert" class="alert">
        {value.why} The console tries again by itself.
      </div>
    )
  return <Shown world={value.world} />
}

function Shown({ world }: { world: World }) {
  const shown = place.value
  const title = titleOf(shown)
  useEffect(() => {
    document.title = title === '' ? 'Setpoint' : `${title} · Setpoint`
  }, [title])
  switch (shown?.at) {
    case 'home':
      return <Home world={world} />
    case 'system':
      return <System world={world} />
    case 'reference':
      return <Reference />
    case 'collection':
      return <Collection key={collectionKey(shown)} place={shown} world={world} />
    case 'object':
      return (
        <ObjectPage
          key={JSON.stringify([
            shown.kind.group,
            shown.kind.version,
            shown.kind.plural,
            shown.namespace,
            shown.name,
          ])}
          place={shown}
          world={world}
        />
      )
    default:
      return <Unknown />
  }
}

function collectionKey({
  kind,
  namespace,
}: Extract<ReturnType<typeof placeNow>, { at: 'collection' }>): string {
  return JSON.stringify([kind.group, kind.version, kind.plural, namespace])
}

function placeNow() {
  return place.value ?? { at: 'unknown' as const }
}

function titleOf(shown: typeof place.value): string {
  if (shown?.at === 'collection') return shown.kind.plural
  if (shown?.at === 'object') return shown.name
  if (shown?.at === 'reference') return 'API reference'
  return shown?.at === 'system' ? 'System' : ''
}

function Unknown() {
  return (
    <>
      <h1>Nothing here</h1>
      <div role="alert" class="alert">
        This server has nothing at {decodeURI(address.value.pathname)}. The kind may not be installed, or its
        plugin may have failed.
      </div>
    </>
  )
}

/** What the last action did. It stays for long enough to be read. */
function Notices() {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  const text = notice.value
  useEffect(() => {
    clearTimeout(timer.current)
    if (text !== '')
      timer.current = setTimeout(() => {
        notice.value = ''
      }, 15_000)
  }, [text])
  return (
    <div role="status" aria-label="Notices" class={text === '' ? 'notices' : 'notices shown'}>
      {text}
    </div>
  )
}
