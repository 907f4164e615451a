import { setImmediate } from 'node:timers/promises'
import type { JsonObject } from '../model/index.ts'
import { hasApply, type RequestFormats } from './kind-operations.ts'
import { kindPaths } from './kind-paths.ts'
import {
  isNamespaced,
  type KindComponents,
  type KindVersion,
  kindComponents,
  type PatchKeywords,
} from './kind-schemas.ts'
import { Members } from './members.ts'
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

/** A kind's share of a document. */
interface KindParts extends KindComponents {
  readonly paths: JsonObject
}

/** Returns the parts of each kind. Yields to other work after each: hundreds of them take tens of milliseconds. */
export async function* kindParts(
  { name, kinds }: GroupVersion,
  ids: OperationIds,
  { formatsOf, patchKeywordsOf }: DocumentOptions,
): AsyncGenerator<KindParts> {
  const formats = formatsOf(partsOf(name).group)
  for (const kind of kinds) {
    const components = kindComponents(kind, await patchKeywordsOf(kind.version))
    yield { ...components, paths: kindPaths(kind, components, { formats, ids }) }
    await setImmediate()
  }
}

/** The components that the kinds and routes of a document share. */
interface SharedComponents {
  readonly schemas: JsonObject
  /** Absent in a document of routes alone. */
  readonly parameters?: JsonObject
  readonly responses: JsonObject
}

export function sharedComponents(
  groupVersions: readonly GroupVersion[],
  { formatsOf }: DocumentOptions,
): SharedComponents {
  const names = groupVersions.filter(({ kinds }) => kinds.length > 0).map(({ name }) => name)
  if (names.length === 0) return { schemas: statusSchemas(), responses: errorResponses }
  const has = {
    apply: names.some(name => hasApply(formatsOf(partsOf(name).group))),
    namespaces: groupVersions.some(({ kinds }) => kinds.some(isNamespaced)),
  }
  return { schemas: metaSchemas(names, has), parameters: sharedParameters, responses: errorResponses }
}

/** Returns the OpenAPI 3.0 document of a group version, as JSON. */
export async function groupDocument(of: GroupVersion, options: DocumentOptions): Promise<Buffer> {
  const { name, kinds, routes } = of
  const { basePath } = options
  const ids = new OperationIds()
  const paths = new Members()
  const schemas = new Members()
  const examples = new Members()
  const { schemas: shared, ...otherComponents } = sharedComponents([of], options)
  schemas.add(shared)
  for await (const parts of kindParts(of, ids, options)) {
    schemas.add(parts.schemas)
    examples.add(parts.examples)
    paths.add(parts.paths)
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
    ...otherComponents,
    securitySchemes: { BearerToken: { type: 'http', scheme: 'bearer' } },
  })
  document.addText('components', components.text)
  return Buffer.from(document.text)
}

function tagsOf(kinds: readonly KindVersion[], routes: readonly DescribedRoute[]): JsonObject[] {
  const tags = new Map<string, string>()
  for (const { plugin, action } of routes)
    if (action === undefined) tags.set(plugin, `Routes of the plugin ${plugin}`)
  for (const { version } of kinds)
    tags.set(version.kind, version.warning ?? `Objects of the kind ${version.kind}`)
  return [...tags].map(([name, description]) => ({ name, description }))
}
