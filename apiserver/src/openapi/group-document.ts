import { setImmediate } from 'node:timers/promises'
import type { JsonObject } from '../model/index.ts'
import { hasApply, type RequestFormats } from './kind-operations.ts'
import { kindPaths } from './kind-paths.ts'
import { isNamespaced, type KindVersion, kindComponents, type PatchKeywords } from './kind-schemas.ts'
import { metaSchemas, statusSchemas } from './meta-schemas.ts'
import { OperationIds, partsOf } from './names.ts'
import { sharedParameters } from './parameters.ts'
import { errorResponses } from './responses.ts'
import { type DescribedRoute, routePaths } from './route-paths.ts'

/** What a group version serves. */
export interface GroupVersion {
  /** `<group>/<version>`, or `v1` of the core group. */
  readonly name: string
  readonly kinds: readonly KindVersion[]
  readonly routes: readonly DescribedRoute[]
}

export interface DocumentOptions {
  /** Prefix of every path: '' or '/x'. */
  readonly basePath: string
  /** Returns the media types of the requests that the server accepts for the kinds of a group. */
  formatsOf(group: string): RequestFormats
  /** Returns the lists of a kind that strategic merge patches treat in their own way. */
  patchKeywordsOf(kind: KindVersion['version']): Promise<readonly PatchKeywords[]>
}

/**
 * Returns the OpenAPI document of a group version, as JSON. Yields after each kind: hundreds of them take tens of
 * milliseconds.
 */
export async function groupDocument(
  { name, kinds, routes }: GroupVersion,
  { basePath, formatsOf, patchKeywordsOf }: DocumentOptions,
): Promise<Buffer> {
  const formats = formatsOf(partsOf(name).group)
  const ids = new OperationIds()
  const paths = new Members()
  const schemas = new Members()
  const examples = new Members()
  const has = { apply: hasApply(formats), namespaces: kinds.some(isNamespaced) }
  schemas.add(kinds.length === 0 ? statusSchemas() : metaSchemas(name, has))
  for (const kind of kinds) {
    const components = kindComponents(kind, await patchKeywordsOf(kind.version))
    schemas.add(components.schemas)
    examples.add(components.examples)
    paths.add(kindPaths(kind, components, { formats, ids }))
    await setImmediate()
  }
  paths.add(routePaths(routes, ids))
  const document = new Members()
  document.add({
    openapi: '3.0.3',
    info: { title: name, version: partsOf(name).version },
    servers: [{ url: basePath === '' ? '/' : basePath }],
    tags: tagsOf(kinds, routes),
    // A token is required only by servers that are configured for tokens.
    security: [{ BearerToken: [] }, {}],
  })
  document.addText('paths', paths.text)
  const components = new Members()
  components.addText('schemas', schemas.text)
  // Kubernetes' types for Go lose an empty object.
  if (!examples.isEmpty) components.addText('examples', examples.text)
  components.add({
    ...(kinds.length > 0 && { parameters: sharedParameters }),
    responses: errorResponses,
    securitySchemes: { BearerToken: { type: 'http', scheme: 'bearer' } },
  })
  document.addText('components', components.text)
  return Buffer.from(document.text)
}

function tagsOf(kinds: readonly KindVersion[], routes: readonly DescribedRoute[]): JsonObject[] {
  const tags = new Map<string, string>()
  for (const { plugin } of routes) tags.set(plugin, `Routes of the plugin ${plugin}`)
  for (const { version } of kinds)
    tags.set(version.kind, version.warning ?? `Objects of the kind ${version.kind}`)
  return [...tags].map(([name, description]) => ({ name, description }))
}

/** The members of a JSON object, encoded one by one, so that no single call encodes a whole document. */
class Members {
  readonly #members: string[] = []

  add(object: JsonObject): void {
    for (const [key, value] of Object.entries(object)) this.addText(key, JSON.stringify(value))
  }

  addText(key: string, json: string): void {
    this.#members.push(`${JSON.stringify(key)}:${json}`)
  }

  get isEmpty(): boolean {
    return this.#members.length === 0
  }

  get text(): string {
    return `{${this.#members.join(',')}}`
  }
}
