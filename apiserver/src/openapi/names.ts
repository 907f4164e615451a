/** The names in a document that other tools show or generate code from. They follow Kubernetes. */

/** Returns the name of a schema that all documents share, such as ObjectMeta. */
export function metaName(name: string): string {
  return `io.k8s.apimachinery.pkg.apis.meta.v1.${name}`
}

/** The parts of `<group>/<version>`, or of the `v1` of the core group, which has no name. */
export function partsOf(apiVersion: string): { readonly group: string; readonly version: string } {
  const [first = '', second] = apiVersion.split('/')
  return second === undefined ? { group: '', version: first } : { group: first, version: second }
}

/** Returns the prefix of an API version's paths. */
export function rootOf(apiVersion: string): string {
  return partsOf(apiVersion).group === '' ? `/api/${apiVersion}` : `/apis/${apiVersion}`
}

/** Returns the name of a kind's schema: `com.example.demo.v1.Gadget`. It is unique across documents. */
export function kindName(apiVersion: string, kind: string): string {
  const { group, version } = partsOf(apiVersion)
  return [...(group || 'core').split('.').reverse(), version, kind].join('.')
}

export function refTo(section: 'schemas' | 'parameters' | 'responses' | 'examples', name: string) {
  return { $ref: `#/components/${section}/${name}` }
}

/** Joins words to `UpperCamelCase`. Words may contain any characters. */
export function upperCamel(...words: readonly string[]): string {
  return words
    .flatMap(word => word.split(/[^A-Za-z0-9]+/))
    .map(part => part.charAt(0).toUpperCase() + part.slice(1))
    .join('')
}

/** The ids of the operations of a document, each taken once. */
export class OperationIds {
  readonly #taken = new Set<string>()

  /** Returns the id, with a number if it is taken: the kind `GadgetStatus` clashes with the status of `Gadget`. */
  take(id: string): string {
    let free = id
    for (let number = 2; this.#taken.has(free); number++) free = `${id}${number}`
    this.#taken.add(free)
    return free
  }
}
