import { ApiError } from '@setpoint/controller-runtime/api'
import type { HostedPlugin } from '@setpoint/controller-runtime/internal'
import { matchesEntityTag } from './entity-tag.ts'
import { MethodNotAllowedError } from './error-response.ts'
import { type PageFile, PageFiles, type PageForm } from './page-files.ts'
import { nothingServed } from './request-info.ts'
import type { Context } from './request-state.ts'
import { RouteConflictError } from './route-conflicts.ts'

/** The first segments of the server's own paths. */
const ownPaths: ReadonlySet<string> = new Set([
  '.well-known',
  'api',
  'apis',
  'debug',
  'docs',
  'healthz',
  'livez',
  'metrics',
  'openapi',
  'openid',
  'operations',
  'readyz',
  'sign-in',
  'version',
])

/** A year. */
const hashed = 'public, max-age=31536000, immutable'

interface Mounted {
  readonly plugin: string
  readonly files: PageFiles
}

export interface PluginPagesOptions {
  /** Precedes every path: '' or '/x'. */
  readonly basePath: string
  /** The origins of OpenID Connect issuers, to which pages may send requests. */
  readonly issuerOrigins: readonly string[]
}

/** The static pages of plugins. They are public: what they show comes from the API. */
export class PluginPages {
  readonly #options: PluginPagesOptions
  readonly #mounted = new Map<HostedPlugin, readonly Mounted[]>()
  readonly #read = new WeakMap<HostedPlugin, readonly PageFiles[]>()
  readonly #headers: Readonly<Record<string, string>>

  constructor(options: PluginPagesOptions) {
    this.#options = options
    this.#headers = Object.freeze({
      'content-security-policy': policyOf(options.issuerOrigins),
      'referrer-policy': 'no-referrer',
      'x-frame-options': 'DENY',
    })
  }

  /** Lists the files of a plugin, before it is added. @throws Error for a folder that cannot be read */
  async read(hosted: HostedPlugin): Promise<void> {
    const { basePath } = this.#options
    this.#read.set(hosted, await Promise.all(hosted.pages.map(pages => PageFiles.of(pages, basePath))))
  }

  /** Mounts all pages of a plugin or none. @throws RouteConflictError naming both that clash */
  add(hosted: HostedPlugin): void {
    const { name: plugin } = hosted.plugin
    const others = [...this.#mounted.values()].flat()
    const own: Mounted[] = []
    for (const files of this.#read.get(hosted) ?? []) {
      const { path } = files
      if (ownPaths.has(path.split('/')[1] ?? ''))
        throw new RouteConflictError(
          plugin,
          `its pages at ${path} would shadow paths of the server; give them another path`,
        )
      const clash = [...others, ...own].find(other => overlaps(other.files.path, path))
      if (clash !== undefined)
        throw new RouteConflictError(
          plugin,
          `its pages at ${path} would clash with those of plugin ${JSON.stringify(clash.plugin)} at ${clash.files.path}`,
        )
      own.push({ plugin, files })
    }
    if (own.length > 0) this.#mounted.set(hosted, own)
  }

  remove(hosted: HostedPlugin): void {
    this.#mounted.delete(hosted)
  }

  /** Returns the path of the module that a plugin adds to the console for one of its kinds. */
  consoleModuleOf(group: string, plural: string): string | undefined {
    for (const { consoleModules } of this.#mounted.keys()) {
      const found = consoleModules.find(({ model }) => model.group === group && model.plural === plural)
      if (found !== undefined) return found.module
    }
    return undefined
  }

  /** Returns true if there are pages at exactly this path. */
  has(path: string): boolean {
    return this.#at(path)?.files.path === path
  }

  /**
   * Serves a path below pages. Returns undefined for any other path.
   * @throws ApiError 404; MethodNotAllowedError
   */
  serve(ctx: Context): Promise<void> | undefined {
    const { path } = ctx.state
    const mounted = path === undefined ? undefined : this.#at(path)
    if (path === undefined || mounted === undefined) return undefined
    return this.#send(ctx, mounted.files.find(path.slice(mounted.files.path.length)))
  }

  async #send(ctx: Context, file: PageFile | undefined): Promise<void> {
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD')
      throw new MethodNotAllowedError(ctx.method, ['GET', 'HEAD'])
    if (file === undefined) throw nothingServed(ctx.state.target.path)
    const form = formFor(ctx, file)
    const { bytes, etag } = await form.read().catch(error => {
      throw new ApiError('NotFound', 'the file is no longer there', undefined, { cause: error })
    })
    ctx.set({
      ...(file.isPage && this.#headers),
      'cache-control': file.isHashed ? hashed : 'no-cache',
      'content-type': file.type,
      'x-content-type-options': 'nosniff',
      etag,
    })
    ctx.vary('Accept-Encoding')
    if (matchesEntityTag(ctx.get('if-none-match'), etag)) {
      ctx.status = 304
      return
    }
    if (form.coding !== undefined) ctx.set('content-encoding', form.coding)
    ctx.status = 200
    ctx.length = bytes.length
    ctx.body = bytes
  }

  #at(path: string): Mounted | undefined {
    for (const mounted of this.#mounted.values()) {
      const found = mounted.find(({ files }) => path === files.path || path.startsWith(`${files.path}/`))
      if (found !== undefined) return found
    }
    return undefined
  }
}

function formFor(ctx: Context, { forms }: PageFile): PageForm {
  const offered = forms.map(({ coding = 'identity' }) => coding)
  const accepted = ctx.acceptsEncodings(...offered)
  const found = forms.find(({ coding = 'identity' }) => coding === accepted) ?? forms.at(-1)
  if (found === undefined) throw new TypeError('a file has no form')
  return found
}

/** Code and styles come from files of this server only, and nothing may frame a page. */
function policyOf(issuerOrigins: readonly string[]): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "font-src 'self'",
    "manifest-src 'self'",
    `connect-src ${["'self'", ...issuerOrigins].join(' ')}`,
    "base-uri 'self'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}

function overlaps(left: string, right: string): boolean {
  return `${left}/`.startsWith(`${right}/`) || `${right}/`.startsWith(`${left}/`)
}
