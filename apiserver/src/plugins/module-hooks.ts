import * as nodeModule from 'node:module'

/** The package that plugins import, with or without a subpath. */
const sdk = '@setpoint/controller-runtime'

interface ResolveContext {
  readonly parentURL?: string
}

type NextResolve = (specifier: string, context: ResolveContext) => unknown

let installed = false

/**
 * Makes every ES module of this process that imports the SDK get the server's own copy. A plugin needs no node_modules,
 * and one that has its own still shares the SDK's classes with the server. Idempotent.
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

/** Replaces Node's own message, which would name this module as the importer. */
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
