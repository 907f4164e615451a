import type { Action } from '@setpoint/controller-runtime/api'
import type { JsonObject } from '../model/index.ts'
import { type OperationIds, partsOf, upperCamel } from './names.ts'
import { toOpenApiSchema } from './openapi-schema.ts'
import { errorRefs } from './responses.ts'

/** Returns the operation of an action in one version of its kind. */
export function actionOperation(
  { model, name, input, output, summary }: Action,
  groupVersion: string,
  ids: OperationIds,
): JsonObject {
  const { kind, scope } = model
  const { group, version } = partsOf(groupVersion)
  const deprecated = model.versions.some(each => each.name === version && each.deprecated !== undefined)
  const subject = `${scope === 'Namespaced' ? 'Namespaced' : ''}${kind}${upperCamel(name)}`
  const body = toOpenApiSchema(input)
  const json = (schema: JsonObject) => ({ 'application/json': { schema } })
  return {
    tags: [kind],
    operationId: ids.take(`create${upperCamel(group, version)}${subject}`),
    summary: summary ?? `Run ${name} on a ${kind}`,
    requestBody: {
      required: body.required !== undefined,
      content: { ...json(body), 'application/yaml': { schema: body } },
    },
    responses: {
      ...(output === undefined
        ? { '204': { description: 'The action is done.' } }
        : { '200': { description: 'The result.', content: json(toOpenApiSchema(output)) } }),
      ...errorRefs(400, 409, 413, 415, 422),
    },
    ...(deprecated && { deprecated }),
    'x-kubernetes-action': 'post',
    'x-kubernetes-group-version-kind': { group, version, kind },
  }
}
