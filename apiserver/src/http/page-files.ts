import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join, relative, sep } from 'node:path'
import { errorMessage } from '@setpoint/controller-runtime/api'
import type { PluginPages } from '@setpoint/controller-runtime/internal'

/** A file whose name has a hash of its content: a bundler's output. It never changes. */
const hashedFolder = 'assets/'

/** Files that are sent for another one, in the order of preference. */
const codings = Object.freeze([
  ['.br', 'br'],
  ['.gz', 'gzip'],
] as const)

const types: Readonly<Record<string, string>> = Object.freeze({
  '.css': 'text/css; charset=utf-8',
  '.gif': 'image/gif',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.jpg': 'image/jpeg',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.map': 'application/json',
  '.mjs': 'text/javascript; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
  '.webmanifest': 'application/manifest+json',
  '.webp': 'image/webp',
  '.woff2': 'font/woff2',
})

/** One form of a file. */
export interface PageForm {
  /** Content coding, undefined for the file itself. */
  readonly coding: string | undefined
  read(): Promise<{ readonly bytes: Buffer; readonly etag: string }>
}

/** A file of a plugin. */
export interface PageFile {
  readonly type: string
  /** Whether it is a page, which the headers of pages are for. */
  readonly isPage: boolean
  /** Whether the name has a hash. */
  readonly isHashed: boolean
  /** The compressed forms first, the file itself last. */
  readonly forms: readonly PageForm[]
}

/**
 * The files below one path. They are listed once, and a request is served only if its path is in the list: nothing
 * outside of the folder can be named, nor a link in it. Contents are read when they are asked for the first time.
 */
export class PageFiles {
  readonly path: string
  readonly #fallback: string | undefined
  readonly #files: ReadonlyMap<string, PageFile>
  readonly #folders: ReadonlySet<string>

  /**
   * @param basePath precedes every path: '' or '/x'. The address in the `<base>` of a page gets it
   * @throws Error that names the folder, or the fallback
   */
  static async of({ path, folder, fallback }: PluginPages, basePath: string): Promise<PageFiles> {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(error => {
      throw new Error(`its pages at ${path} cannot be read: ${errorMessage(error)}`)
    })
    const names = entries
      .filter(entry => entry.isFile())
      .map(entry => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/'))
    const known = new Set(names)
    const files = new Map<string, PageFile>()
    for (const name of names) {
      const isForm = codings.some(
        ([ending]) => name.endsWith(ending) && known.has(name.slice(0, -ending.length)),
      )
      if (!isForm) files.set(name, fileOf(name, { folder, known, base: `${basePath}${path}/` }))
    }
    if (fallback !== undefined && !files.has(fallback))
      throw new Error(`its pages at ${path} have no file ${fallback} in ${folder}, which is their fallback`)
    const folders = new Set(names.filter(name => name.includes('/')).map(name => name.split('/', 1)[0] ?? ''))
    return new PageFiles({ path, fallback, files, folders })
  }

  private constructor(parts: {
    path: string
    fallback: string | undefined
    files: ReadonlyMap<string, PageFile>
    folders: ReadonlySet<string>
  }) {
    this.path = parts.path
    this.#fallback = parts.fallback
    this.#files = parts.files
    this.#folders = parts.folders
  }

  /** Returns the file for a path below `this.path`, which begins with a slash or is empty. */
  find(below: string): PageFile | undefined {
    const name = below.slice(1)
    const file = this.#files.get(name) ?? this.#files.get(name === '' ? 'index.html' : `${name}/index.html`)
    if (file !== undefined || this.#fallback === undefined) return file
    return this.#folders.has(name.split('/', 1)[0] ?? '') ? undefined : this.#files.get(this.#fallback)
  }
}

function fileOf(
  name: string,
  { folder, known, base }: { folder: string; known: ReadonlySet<string>; base: string },
): PageFile {
  const type = types[extname(name).toLowerCase()] ?? 'application/octet-stream'
  const isPage = type.startsWith('text/html')
  const form = (ending: string, coding?: string): PageForm => {
    let content: ReturnType<PageForm['read']> | undefined
    return {
      coding,
      read() {
        content ??= read(join(folder, `${name}${ending}`), isPage ? base : undefined)
        content.catch(() => {
          content = undefined
        })
        return content
      },
    }
  }
  // A page is changed before it is sent.
  const compressed = isPage ? [] : codings.filter(([ending]) => known.has(`${name}${ending}`))
  return {
    type,
    isPage,
    isHashed: name.startsWith(hashedFolder),
    forms: [...compressed.map(([ending, coding]) => form(ending, coding)), form('')],
  }
}

async function read(path: string, base: string | undefined) {
  const stored = await readFile(path)
  const bytes = base === undefined ? stored : Buffer.from(withBase(stored.toString('utf8'), base))
  return { bytes, etag: `"${createHash('sha256').update(bytes).digest('hex').slice(0, 32)}"` }
}

/** Sets the address that the links of a page are relative to, if the page has a `<base>`. */
function withBase(page: string, base: string): string {
  return page.replace(/<base href="[^"]*"/, `<base href="${base}"`)
}
