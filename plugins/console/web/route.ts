import { signal } from '@preact/signals'
import { consoleHref, consoleRoot, pathOf } from './api/address.ts'
import { type Kind, pathOfKind } from './api/discovery.ts'

/** What an address shows. */
export type Place =
  | { readonly at: 'home' | 'system' | 'sign-in' | 'reference' | 'unknown' }
  | {
      readonly at: 'collection'
      readonly kind: Kind
      readonly namespace: string | undefined
      readonly query: URLSearchParams
    }
  | {
      readonly at: 'object'
      readonly kind: Kind
      readonly namespace: string | undefined
      readonly name: string
      /** The part of the object's page that is open. */
      readonly tab: string
    }

/** Changes with each navigation. */
export const address = signal(new URL(location.href))

addEventListener('popstate', () => {
  address.value = new URL(location.href)
})

/** Goes to a path below the console: `/apis/...`. */
export function go(path: string, { replaces = false } = {}): void {
  const href = consoleHref(path)
  if (replaces) history.replaceState(null, '', href)
  else history.pushState(null, '', href)
  address.value = new URL(location.href)
}

/** Links within the console change the address without loading the page again. */
export function followLinks(): void {
  document.addEventListener('click', event => {
    const { target, button, metaKey, ctrlKey, shiftKey, altKey } = event
    if (event.defaultPrevented || button !== 0 || metaKey || ctrlKey || shiftKey || altKey) return
    const link = target instanceof Element ? target.closest('a') : null
    if (link === null || link.target !== '' || link.hasAttribute('download')) return
    const { origin, pathname, search, hash } = new URL(link.href)
    if (origin !== location.origin || !`${pathname}/`.startsWith(consoleRoot.pathname)) return
    event.preventDefault()
    go(`${pathOf(pathname)}${search}${hash}`)
  })
}

/** Reads an address. Kinds are looked up in any of their versions. */
export function placeOf({ pathname, search, hash }: URL, kinds: readonly Kind[]): Place {
  const path = pathOf(pathname)
  if (path === '') return { at: 'home' }
  if (path === '/system' || path === '/sign-in') return { at: path === '/system' ? 'system' : 'sign-in' }
  if (path === '/reference') return { at: 'reference' }
  const segments = decoded(path)
  if (segments === undefined) return { at: 'unknown' }
  const [root, ...below] = segments
  const core = root === 'api'
  const group = core ? '' : (below.shift() ?? '')
  const version = below.shift()
  if ((root !== 'api' && root !== 'apis') || version === undefined) return { at: 'unknown' }
  const find = (plural: string | undefined, inNamespace: boolean) =>
    kinds.find(
      each =>
        each.group === group &&
        each.version === version &&
        each.plural === plural &&
        (each.isNamespaced || !inNamespace),
    )
  const isIn = below[0] === 'namespaces' && below.length > 2
  const namespace = isIn ? below[1] : undefined
  const [plural, name, ...more] = isIn ? below.slice(2) : below
  const kind = find(plural, isIn)
  if (kind === undefined || more.length > 0) return { at: 'unknown' }
  if (name === undefined) return { at: 'collection', kind, namespace, query: new URLSearchParams(search) }
  return { at: 'object', kind, namespace, name, tab: hash.slice(1) || 'overview' }
}

function decoded(path: string): string[] | undefined {
  try {
    return path.slice(1).replace(/\/$/, '').split('/').map(decodeURIComponent)
  } catch {
    return undefined
  }
}

/** Returns the address of a collection with another query. */
export function collectionPath(
  { kind, namespace }: { readonly kind: Kind; readonly namespace: string | undefined },
  query: URLSearchParams,
): string {
  // As people write it: `sort=spec.n,desc`.
  const readable = (value: string) =>
    encodeURIComponent(value).replace(/%(2C|3D|3A|2F|40)/g, decodeURIComponent)
  const text = [...query].map(([name, value]) => `${encodeURIComponent(name)}=${readable(value)}`).join('&')
  return `${pathOfKind(kind, namespace)}${text === '' ? '' : `?${text}`}`
}
