import { computed, effect, signal } from '@preact/signals'
import { discover, type Kind, pathOfKind } from './api/discovery.ts'
import { ApiFailure, wordsOf } from './api/http.ts'
import { namespaceNames, Rights, whoAmI } from './api/rights.ts'
import { askForSignIn, readSignIn, type SignIn, signInReason, token } from './api/session.ts'
import { socket } from './api/socket.ts'
import { address, placeOf } from './route.ts'

/** A kind that the person may list somewhere, and where. */
export interface ListedKind {
  readonly kind: Kind
  /** Undefined: in all namespaces, or there are none. */
  readonly namespace: string | undefined
}

/** What the server is, and what the person may do there. */
export interface World {
  readonly kinds: readonly Kind[]
  readonly listed: readonly ListedKind[]
  /** Undefined if the person may not list them. */
  readonly namespaces: readonly string[] | undefined
  readonly rights: Rights
  readonly user: string | undefined
}

export type Start =
  | { readonly is: 'loading' }
  | { readonly is: 'failed'; readonly why: string }
  | { readonly is: 'ready'; readonly world: World }

export const start = signal<Start>({ is: 'loading' })
export const signIn = signal<SignIn>({ required: false, issuers: [] })
/** The kind of the page. A page that is open stays readable when its kind goes. */
let openKind: Kind | undefined
export const place = computed(() => {
  if (start.value.is !== 'ready') return undefined
  const { kinds } = start.value.world
  const found = placeOf(address.value, openKind === undefined ? kinds : [...kinds, openKind])
  openKind = 'kind' in found ? found.kind : undefined
  return found
})

/** What the last action did. */
export const notice = signal('')

export function tell(text: string): void {
  notice.value = text
}

/** Milliseconds between two looks for new kinds. The server says shortly that nothing has changed. */
const rediscoverMs = 15_000

/** Loads what the page needs, and again with each other token. */
export async function begin(): Promise<void> {
  signIn.value = await readSignIn().catch(() => signIn.value)
  let used: string | undefined | null = null
  effect(() => {
    if (token.value === used) return
    used = token.value
    if (used === undefined && signIn.value.required) {
      askForSignIn()
      socket.close()
      start.value = { is: 'loading' }
    } else void load()
  })
  setInterval(() => {
    if (!document.hidden && start.value.is === 'ready') void rediscover()
  }, rediscoverMs)
}

async function load(): Promise<void> {
  start.value = { is: 'loading' }
  const used = token.value
  socket.reopen()
  try {
    const rights = new Rights(signIn.value.required)
    const [kinds, user] = await Promise.all([discover(), signIn.value.required ? whoAmI() : undefined])
    const world = await worldOf(kinds, rights, user)
    if (token.value === used && signInReason.value === undefined) start.value = { is: 'ready', world }
  } catch (error) {
    if (error instanceof ApiFailure && error.code === 401) return
    start.value = { is: 'failed', why: wordsOf(error) }
    setTimeout(() => {
      if (start.value.is === 'failed') void load()
    }, 2_000)
  }
}

/** Looks for kinds that have come or gone. */
export async function rediscover(): Promise<void> {
  const before = start.value
  if (before.is !== 'ready') return
  const found = await discover().catch(() => undefined)
  if (
    found === undefined ||
    start.value !== before ||
    JSON.stringify(found) === JSON.stringify(before.world.kinds)
  )
    return
  // A kind that is still the same is the same object, so that its page goes on as it is, with what has been typed there.
  const known = new Map(before.world.kinds.map(kind => [JSON.stringify(kind), kind]))
  const kinds = found.map(kind => known.get(JSON.stringify(kind)) ?? kind)
  const world = await worldOf(kinds, before.world.rights, before.world.user)
  if (start.value === before) start.value = { is: 'ready', world }
}

async function worldOf(kinds: readonly Kind[], rights: Rights, user: string | undefined): Promise<World> {
  const ofNamespaces = kinds.find(({ group, plural }) => group === '' && plural === 'namespaces')
  const namespaces =
    ofNamespaces !== undefined && (await rights.may('list', ofNamespaces))
      ? await namespaceNames().catch(() => undefined)
      : undefined
  const preferred = kinds.filter(({ isPreferred }) => isPreferred)
  const everywhere = await Promise.all(preferred.map(kind => rights.may('list', kind)))
  const rest = preferred.filter((kind, at) => !everywhere[at] && kind.isNamespaced)
  const within = rest.length === 0 ? [] : await listableWithin(rights, namespaces)
  const listed = await Promise.all(
    preferred.map(async (kind, at): Promise<ListedKind[]> => {
      if (everywhere[at]) return [{ kind, namespace: undefined }]
      const namespace = within.find(({ may }) => kind.isNamespaced && may(kind))?.namespace
      // Rules do not say which kinds are sensitive.
      const may = namespace !== undefined && (await rights.may('list', kind, { namespace }))
      return may ? [{ kind, namespace }] : []
    }),
  )
  return { kinds, listed: listed.flat(), namespaces, rights, user }
}

/** Namespaces that are looked into for a person who may not list a kind in all of them. */
const askedNamespaces = 50

/** Those that the person has named, the last one first: no route says where the roles of a person are. */
let namedNamespaces: readonly string[] = []

/** Looks into a namespace for kinds that the person may list there. */
export async function lookInto(namespace: string): Promise<void> {
  const before = start.value
  if (before.is !== 'ready') return
  namedNamespaces = [namespace, ...namedNamespaces]
  const { kinds, rights, user } = before.world
  const world = await worldOf(kinds, rights, user)
  if (start.value === before) start.value = { is: 'ready', world }
}

async function listableWithin(rights: Rights, namespaces: readonly string[] | undefined) {
  const named = /\/namespaces\/([^/]+)/.exec(address.value.pathname)?.[1]
  const guesses = [
    ...(named === undefined ? [] : [decodeURIComponent(named)]),
    ...namedNamespaces,
    ...(namespaces ?? ['default']),
  ]
  const asked = [...new Set(guesses)].slice(0, askedNamespaces)
  return Promise.all(asked.map(async namespace => ({ namespace, may: await rights.listableIn(namespace) })))
}

/** Returns the path of a listed kind. */
export function pathOfListed({ kind, namespace }: ListedKind): string {
  return pathOfKind(kind, namespace)
}
