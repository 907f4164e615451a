import type { Action } from '@setpoint/controller-runtime/api'
import { parse, type Token } from 'path-to-regexp'
import type { JsonObject } from '../model/index.ts'
import { actionOperation } from './action-operation.ts'
import { type OperationIds, upperCamel } from './names.ts'
import { errorRefs } from './responses.ts'

/** A route of a plugin, or an action in one version of its kind. */
export interface DescribedRoute {
  readonly plugin: string
  /** `<group>/<version>` */
  readonly groupVersion: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Below the group version, in the syntax of path-to-regexp: `:name`, `*rest`, `{/:optional}`. */
  readonly pattern: string
  readonly summary: string | undefined
  /** Set for an action of a kind. */
  readonly action?: Action
}

/** A path without optional parts. */
interface Template {
  /** With `{name}` for each parameter. */
  readonly path: string
  readonly parameters: readonly { readonly name: string; readonly isRest: boolean }[]
}

/** Returns the paths of plugins' routes in one group version, with their operations. */
export function routePaths(routes: readonly DescribedRoute[], ids: OperationIds): JsonObject {
  const paths = new Map<string, { template: Template; item: JsonObject }>()
  for (const route of routes) {
    for (const template of templatesOf(route.pattern)) {
      // OpenAPI considers two paths the same that differ only in the names of parameters.
      const shape = template.path.replace(/\{[^}]*\}/g, '{}')
      const parameters = pathParameters(template)
      const known = paths.get(shape) ?? { template, item: parameters.length > 0 ? { parameters } : {} }
      paths.set(shape, known)
      const { action, groupVersion } = route
      known.item[route.method.toLowerCase()] =
        action === undefined ? operationOf(route, template, ids) : actionOperation(action, groupVersion, ids)
    }
  }
  const groupVersions = new Set(routes.map(({ groupVersion }) => groupVersion))
  const [groupVersion = ''] = groupVersions
  return Object.fromEntries(
    [...paths.values()].map(({ template, item }) => [`/apis/${groupVersion}${template.path}`, item]),
  )
}

/** Returns the paths that a pattern matches: one with and one without each optional part. */
function templatesOf(pattern: string): Template[] {
  const { tokens } = parse(pattern)
  return expand(tokens)
}

const noText: Template = { path: '', parameters: [] }

function expand(tokens: readonly Token[]): Template[] {
  let templates = [noText]
  for (const token of tokens) {
    const choices = token.type === 'group' ? [noText, ...expand(token.tokens)] : [templateOf(token)]
    templates = templates.flatMap(before => choices.map(after => join(before, after)))
  }
  return templates
}

function templateOf(token: Exclude<Token, { type: 'group' }>): Template {
  // Braces mark parameters in OpenAPI.
  if (token.type === 'text') return { path: token.value.replace(/[{}]/g, encodeURIComponent), parameters: [] }
  return {
    path: `{${token.name}}`,
    parameters: [{ name: token.name, isRest: token.type === 'wildcard' }],
  }
}

function join(before: Template, after: Template): Template {
  return { path: before.path + after.path, parameters: [...before.parameters, ...after.parameters] }
}

function pathParameters({ parameters }: Template): JsonObject[] {
  return parameters.map(({ name, isRest }) => ({
    name,
    in: 'path',
    required: true,
    description: isRest ? 'The rest of the path, with its slashes.' : 'A segment of the path.',
    schema: { type: 'string' },
  }))
}

const anything = { 'application/json': { schema: {} } }

/** A route promises nothing about its body, its query and its response. */
function operationOf(
  { plugin, groupVersion, method, pattern, summary }: DescribedRoute,
  { path }: Template,
  ids: OperationIds,
): JsonObject {
  return {
    tags: [plugin],
    operationId: ids.take(`${method.toLowerCase()}${upperCamel(groupVersion, path)}`),
    summary: summary ?? `${method} ${pattern}`,
    description: `A route of the plugin ${plugin}.`,
    ...(method !== 'GET' && { requestBody: { content: anything } }),
    responses: {
      '200': { description: 'Decided by the plugin.', content: anything },
      ...errorRefs(400, 413),
    },
  }
}
