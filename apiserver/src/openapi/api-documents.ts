import { createHash } from 'node:crypto'
import { compareUnits, type ModelRegistry, reviewPathOf } from '../model/index.ts'
import { type DocumentOptions, type GroupVersion, groupDocument } from './group-document.ts'
import type { KindVersion } from './kind-schemas.ts'
import { rootOf } from './names.ts'
import type { DescribedRoute } from './route-paths.ts'
import { type SwaggerForm, swaggerDocument } from './swagger-document.ts'

/** A document that is ready to be sent. */
export interface ReadyDocument {
  readonly bytes: Buffer
  /** Identifies the content: equal content has an equal hash on every server. */
  readonly hash: string
}

interface ApiDocumentsParts extends DocumentOptions {
  readonly models: ModelRegistry
  readonly routes: {
    describe(): readonly DescribedRoute[]
    /** Returns the path of the module that adds to the console for a kind. Default: no kind has one. */
    consoleModuleOf?(group: string, plural: string): string | undefined
  }
}

/**
 * The OpenAPI documents of this server. A document is made when it is first asked for, and kept until the models or
 * routes that it describes are other ones: compared at each request, so a change needs no notification.
 */
export class ApiDocuments {
  readonly #parts: ApiDocumentsParts
  /** By group version: one for each that is served. */
  readonly #kept = new Map<string, KeptDocument>()
  readonly #swagger = { json: new KeptDocument(), protobuf: new KeptDocument() }

  constructor(parts: ApiDocumentsParts) {
    this.#parts = parts
  }

  /**
   * Returns the document of `<group>/<version>`, or of `v1` of the core group, or undefined if nothing is served there.
   */
  async document(groupVersion: string): Promise<ReadyDocument | undefined> {
    const current = this.#current().get(groupVersion)
    return current && this.#documentOf(current)
  }

  /** Returns the index: the path of each document, with its hash. Makes all documents. */
  async index(): Promise<ReadyDocument> {
    const paths: Record<string, object> = {}
    for (const groupVersion of this.#current().values()) {
      const { hash } = await this.#documentOf(groupVersion)
      paths[rootOf(groupVersion.name).slice(1)] = { serverRelativeURL: this.pathOf(groupVersion.name, hash) }
    }
    return ready(Buffer.from(JSON.stringify({ paths })))
  }

  /** Returns the full path of a document in this state. */
  pathOf(groupVersion: string, hash: string): string {
    return `${this.#parts.basePath}/openapi/v3${rootOf(groupVersion)}?hash=${hash}`
  }

  /** Returns the Swagger 2.0 document, which describes all group versions. */
  swagger(form: SwaggerForm): Promise<ReadyDocument> {
    const of = [...this.#current().values()]
    return this.#swagger[form].get(of, () => swaggerDocument(of, form, this.#parts))
  }

  #documentOf(of: GroupVersion): Promise<ReadyDocument> {
    const kept = this.#kept.get(of.name) ?? new KeptDocument()
    this.#kept.set(of.name, kept)
    return kept.get([of], () => groupDocument(of, this.#parts))
  }

  /** Returns what each group version serves now, in an order that is the same on every server. */
  #current(): Map<string, GroupVersion> {
    const current = new Map<string, { name: string; kinds: KindVersion[]; routes: DescribedRoute[] }>()
    const at = (name: string) => {
      const found = current.get(name) ?? { name, kinds: [], routes: [] }
      current.set(name, found)
      return found
    }
    const models = [...this.#parts.models.visible()].sort((a, b) =>
      compareUnits(a.model.plural, b.model.plural),
    )
    for (const served of models) {
      const { group, plural } = served.model
      const consoleModule = this.#parts.routes.consoleModuleOf?.(group, plural)
      for (const version of served.servedVersions())
        at(version.apiVersion).kinds.push({ served, version, consoleModule })
    }
    for (const served of this.#parts.models.reviews()) {
      const { group, version } = reviewPathOf(served)
      at(group === '' ? version : `${group}/${version}`).kinds.push({ served, version: served.hub })
    }
    const routes = [...this.#parts.routes.describe()].sort((a, b) => compareUnits(idOf(a), idOf(b)))
    for (const route of routes) at(route.groupVersion).routes.push(route)
    for (const name of this.#kept.keys()) if (!current.has(name)) this.#kept.delete(name)
    return current
  }
}

/** A document that is made again when what it describes has changed. */
class KeptDocument {
  #of: readonly GroupVersion[] = []
  #document: Promise<ReadyDocument> | undefined

  get(of: readonly GroupVersion[], make: () => Promise<Buffer>): Promise<ReadyDocument> {
    if (this.#document !== undefined && isSame(this.#of, of)) return this.#document
    const document = make().then(ready)
    this.#of = of
    this.#document = document
    // A failure is not kept.
    document.catch(() => {
      if (this.#document === document) this.#document = undefined
    })
    return document
  }
}

function idOf({ pattern, method, plugin }: DescribedRoute): string {
  return `${pattern} ${method} ${plugin}`
}

function ready(bytes: Buffer): ReadyDocument {
  return { bytes, hash: createHash('sha256').update(bytes).digest('hex') }
}

function isSame(before: readonly GroupVersion[], now: readonly GroupVersion[]): boolean {
  return (
    before.length === now.length &&
    before.every((of, at) => {
      const other = now[at]
      return other !== undefined && isSameGroupVersion(of, other)
    })
  )
}

/** Models never change; a reload replaces them. */
function isSameGroupVersion(a: GroupVersion, b: GroupVersion): boolean {
  return (
    a.name === b.name &&
    a.kinds.length === b.kinds.length &&
    a.kinds.every(
      ({ version, consoleModule }, at) =>
        version === b.kinds[at]?.version && consoleModule === b.kinds[at]?.consoleModule,
    ) &&
    JSON.stringify(a.routes) === JSON.stringify(b.routes)
  )
}
