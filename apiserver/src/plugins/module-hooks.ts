import { existsSync, realpathSync } from 'node:fs'
import * as nodeModule from 'node:module'
import { join } from 'node:path'

/** The package that plugins import, with or without a subpath. */
const sdk = '@setpoint/controller-runtime'

/** Query parameter of the modules of a reloaded plugin, so that Node imports them once more. */
const generationParameter = 'setpoint-generation'

interface ResolveContext {
  readonly parentURL?: string
}

interface Resolved {
  readonly url: string
}

type NextResolve = (specifier: string, context: ResolveContext) => Resolved

/** Returns the URL of a module in a generation of its plugin. The first one, 0, has the plain URL. */
export function urlOfGeneration(url: string, generation: number): string {
  return generation === 0 ? url : `${url}?${generationParameter}=${generation}`
}

/**
 * Returns true if a plugin gets the server's own copy of the SDK without the hooks, as the plugins of an installation
 * do. Packages in its folder might have another copy.
 */
export function sharesSdk(folder: string, entry: string): boolean {
  if (existsSync(join(folder, 'node_modules'))) return false
  try {
    return sdkOf(realpathSync(entry)) === sdkOf(import.meta.url)
  } catch {
    // The folder finds no SDK.
    return false
  }
}

function sdkOf(importer: string): string {
  return nodeModule.createRequire(importer).resolve(sdk)
}

let installed = false

/**
 * Makes every ES module of this process that imports the SDK get the server's own copy. A plugin needs no node_modules,
 * and one that has its own still shares the SDK's classes with the server.
 *
 * A module that is imported in a generation of its plugin imports its relative modules in the same one. Packages and
 * CommonJS modules have one instance in the process.
 *
 * Before Node 22.15 the hooks start a thread, which takes as much processor time as a fifth of the program's start.
 *
 * Idempotent.
 */
export function installModuleHooks(): void {
  if (installed) return
  installed = true
  // The import resolves as if this module had made it.
  const parentURL = import.meta.url
  // Node 22.15 and later run hooks in this thread. Older versions run them in a thread of their own, from source text.
  // `Reflect.get`, because the types are those of the oldest supported Node.
  const registerHooks: unknown = Reflect.get(nodeModule, 'registerHooks')
  if (typeof registerHooks === 'function') {
    registerHooks({
      resolve(specifier: string, context: ResolveContext, nextResolve: NextResolve) {
        const importer = context.parentURL
        if (specifier !== sdk && !specifier.startsWith(`${sdk}/`))
          return inGeneration(specifier, importer, nextResolve(specifier, context), generationParameter)
        try {
          return nextResolve(specifier, { ...context, parentURL })
        } catch (error) {
          throw unknownEntry(specifier, importer, error)
        }
      },
    })
  } else {
    nodeModule.register(`data:text/javascript,${encodeURIComponent(threadHooks)}`, {
      data: { sdk, parentURL, generationParameter },
    })
  }
}

/** Replaces Node's own message, which would name this module as the importer. */
function unknownEntry(specifier: string, importer: string | undefined, cause: unknown): Error {
  return new Error(`the SDK has no entry "${specifier}", imported from ${importer}`, { cause })
}

/**
 * Adds the generation of the importing module to a relative import. Self-contained, because `threadHooks` has its text.
 */
function inGeneration<R extends { readonly url: string }>(
  specifier: string,
  importer: string | undefined,
  resolved: R,
  parameter: string,
): R {
  if (importer === undefined || !/^\.\.?\//.test(specifier) || !resolved.url.startsWith('file:'))
    return resolved
  const at = importer.indexOf(`?${parameter}=`)
  if (at < 0 || resolved.url.includes('?')) return resolved
  return { ...resolved, url: resolved.url + importer.slice(at) }
}

/** The hook above, as a module for `register`. */
const threadHooks = `
let sdk, parentURL, generationParameter
export function initialize(data) {
  ({ sdk, parentURL, generationParameter } = data)
}
export async function resolve(specifier, context, nextResolve) {
  const importer = context.parentURL
  if (specifier !== sdk && !specifier.startsWith(sdk + '/'))
    return inGeneration(specifier, importer, await nextResolve(specifier, context), generationParameter)
  try {
    return await nextResolve(specifier, { ...context, parentURL })
  } catch (error) {
    throw unknownEntry(specifier, importer, error)
  }
}
${unknownEntry}
${inGeneration}
`
