import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { packageFolder } from '../package-folder.ts'
import type { ReadyDocument } from './api-documents.ts'

/**
 * The files of the page to browse the documents, by their paths. They contain nothing about the kinds of this server.
 */
const files: Readonly<Record<string, { readonly name: string; readonly type: string }>> = Object.freeze({
  '/docs': { name: 'docs.html', type: 'text/html; charset=utf-8' },
  '/docs/docs.css': { name: 'docs.css', type: 'text/css; charset=utf-8' },
  '/docs/docs.js': { name: 'docs.js', type: 'text/javascript; charset=utf-8' },
  '/docs/view.js': { name: 'view.js', type: 'text/javascript; charset=utf-8' },
})

export const docsPaths: readonly string[] = Object.keys(files)

/** The page loads its own files only, and sends requests to this server only. */
export const docsHeaders = Object.freeze({
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
})

const known = new Map<string, Promise<ReadyDocument & { readonly type: string }>>()

/**
 * Returns a file of the page. It is read once.
 * @param hasConsole whether the page leads to the console
 * @throws RangeError for another path
 */
export function docsFile(
  path: string,
  hasConsole: boolean,
): Promise<ReadyDocument & { readonly type: string }> {
  const key = `${path} ${hasConsole}`
  const found = known.get(key) ?? read(path, hasConsole)
  known.set(key, found)
  found.catch(() => known.delete(key))
  return found
}

const consoleLink = ' href="console"'

async function read(path: string, hasConsole: boolean): Promise<ReadyDocument & { readonly type: string }> {
  const file = files[path]
  if (file === undefined) throw new RangeError(`no file of the page at ${path}`)
  const text = await readFile(new URL(`pages/${file.name}`, packageFolder), 'utf8')
  const bytes = Buffer.from(hasConsole ? text : text.replace(consoleLink, ''))
  return { bytes, hash: createHash('sha256').update(bytes).digest('hex'), type: file.type }
}
