/** Where the page and the API are. The server has put the address of the console into the page. */
export const consoleRoot = new URL(document.baseURI)

/** Ends with a slash. */
export const apiRoot = new URL('../', consoleRoot)

/** Returns the URL of a path of the API: `/apis/...`, with its query. */
export function apiUrl(path: string): URL {
  return new URL(path.replace(/^\//, ''), apiRoot)
}

/** Returns the console's address of a path of the API, or of a page of its own. */
export function consoleHref(path: string): string {
  const { pathname, search, hash } = new URL(path.replace(/^\//, ''), consoleRoot)
  return pathname + search + hash
}

/** Returns what follows the console's own path: '' or `/apis/...`. */
export function pathOf(pathname: string): string {
  const root = consoleRoot.pathname
  if (!pathname.startsWith(root)) return ''
  const rest = pathname.slice(root.length)
  return rest === '' ? '' : `/${rest}`
}
