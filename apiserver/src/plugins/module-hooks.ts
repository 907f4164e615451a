import * as nodeModule from 'node:module'

/** The package that a plugin imports, itself or a subpath of it, wherever the plugin's folder is. */
const sdk = '@setpoint/controller-runtime'

interface ResolveContext {
  readonly parentURL?: string
}

type NextResolve = (specifier: string, context: ResolveContext) => unknown

let installed = false

/**
 * From now on every ES module of this process that imports the SDK gets the server's own copy of it: a plugin needs
 * no node_modules, and one that brings some still shares the SDK's classes with the server. Which subpaths there are
 * remains the SDK's own business. Calling it again changes nothing.
 */
export function installModuleHooks(): void {
  if (installed) return
  installed = true
  // The import resolves as if this module had made it.
  const parentURL = import.meta.url
  // Hooks run in place where Node can do that (from 22.15). Before, they live in a thread of their own, which gets
  // their source. `Reflect.get`, because the types are those of the oldest Node that is supported.
  const registerHooks: unknown = Reflect.get(nodeModule, 'registerHooks')
  if (typeof registerHooks === 'function') {
    registerHooks({
      resolve(specifier: string, context: ResolveContext, nextResolve: NextResolve) {
        if (specifier !== sdk && !specifier.startsWith(`${sdk}/`)) return nextResolve(specifier, context)
        const importer = context.parentURL
        try {
          return nextResolve(specifier, { ...context, parentURL })
        } catch (error) {
          throw unknownEntry(specifier, importer, error)
        }
      },
    })
  } else {
    nodeModule.register(`data:text/javascript,${encodeURIComponent(threadHooks)}`, {
      data: { sdk, parentURL },
    })
  }
}

/** Node's own message names this module, as if it had made the import; and it writes what it was given into `context`. */
function unknownEntry(specifier: string, importer: string | undefined, cause: unknown): Error {
  return new Error(`the SDK has no entry "${specifier}", imported from ${importer}`, { cause })
}

/** The hook above, as a module for `register`. */
const threadHooks = `
let sdk, parentURL
export function initialize(data) {
  ({ sdk, parentURL } = data)
}
export async function resolve(specifier, context, nextResolve) {
  if (specifier !== sdk && !specifier.startsWith(sdk + '/')) return nextResolve(specifier, context)
  const importer = context.parentURL
  try {
    return await nextResolve(specifier, { ...context, parentURL })
  } catch (error) {
    throw unknownEntry(specifier, importer, error)
  }
}
${unknownEntry}
`
