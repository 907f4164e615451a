import { isAbsolute, relative, resolve } from 'node:path'
import type { AuthenticationOptions, ServerOptions } from './options.ts'

/**
 * What the program prints to standard output once it serves. Programs wait for the first line, so nothing else but the
 * address of the console is printed unless standard output is a terminal. There, a person sees below it where to look,
 * where the objects are, and who may call.
 */

/** A page for people that every server serves. */
interface ServedPage {
  readonly name: string
  /** Below the address of the server. */
  readonly path: string
}

/** In this order. */
const pages: readonly ServedPage[] = [{ name: 'API', path: '/docs' }]

/** The first line, and the facts below it. */
export interface StartLines {
  readonly line: string
  readonly facts?: readonly StartFact[]
  /** The second line where standard output is no terminal. */
  readonly second?: string
}

interface StartFact {
  readonly name: string
  readonly text: string
}

/** Returns the lines of a server with this address. */
export function linesOfServer(
  url: string,
  {
    store,
    authentication,
    plugins,
  }: Pick<ServerOptions, 'store' | 'authentication'> & Partial<Pick<ServerOptions, 'plugins'>>,
  consoleUrl?: string,
): StartLines {
  return {
    line: `setpoint listening on ${url}`,
    // Who names plugins often starts the server from a program, which may expect a single line.
    ...(consoleUrl !== undefined && plugins === undefined && { second: `console at ${consoleUrl}` }),
    facts: [
      ...(consoleUrl === undefined ? [] : [{ name: 'Console', text: consoleUrl }]),
      ...pages.map(({ name, path }) => ({ name, text: `${url}${path}` })),
      {
        name: 'Data',
        text:
          store.kind === 'embedded'
            ? shortPath(store.dataDir)
            : `etcd at ${store.endpoints.join(', ')}, below ${store.prefix}`,
      },
      { name: 'Access', text: callersOf(authentication) },
      { name: 'Stop', text: 'Ctrl-C' },
    ],
  }
}

/** Returns the text to print. */
export function formatStart(
  { line, facts = [], second }: StartLines,
  { isTerminal, colour }: { readonly isTerminal: boolean; readonly colour: boolean },
): string {
  if (!isTerminal || facts.length === 0) return second === undefined ? `${line}\n` : `${line}\n${second}\n`
  const paint = (code: string, text: string) => (colour ? `\u001b[${code}m${text}\u001b[0m` : text)
  const width = Math.max(...facts.map(({ name }) => name.length))
  const rows = facts.map(({ name, text }) => {
    const isAddress = /^https?:/.test(text)
    return `  ${paint('32', '➜')}  ${paint('1', name.padEnd(width))}  ${isAddress ? paint('36', text) : text}\n`
  })
  return `${line}\n\n${rows.join('')}\n`
}

function callersOf(authentication: AuthenticationOptions | undefined): string {
  if (authentication === undefined)
    return 'all users of this machine may do everything (--token-file asks for tokens)'
  const { tokenFile, clientCa, oidc } = authentication
  const ways = [
    ...(tokenFile === undefined ? [] : [`a token of ${shortPath(tokenFile.path)}`]),
    ...(clientCa === undefined ? [] : [`a certificate of ${shortPath(clientCa.path)}`]),
    ...oidc.map(({ issuer }) => `a token of ${issuer}`),
  ]
  return `callers with ${ways.join(', or ')}`
}

/** Returns a path below the working directory relative to it, and any other as absolute. */
function shortPath(path: string): string {
  const below = relative('', path)
  return below.startsWith('..') || isAbsolute(below) || below === '' ? resolve(path) : `./${below}`
}
