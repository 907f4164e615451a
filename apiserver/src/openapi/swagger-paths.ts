import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '@setpoint/controller-runtime/api'
import type { JsonObject } from '../model/index.ts'
import { mapValues, swaggerRef, toSwaggerSchema } from './swagger-schema.ts'

/** Returns the Swagger 2.0 form of paths of OpenAPI 3.0. */
export function swaggerPaths(paths: JsonObject): JsonObject {
  return mapValues(paths, item =>
    mapValues(recordOf(item), (value, key) =>
      key === 'parameters' ? listOf(value).map(swaggerParameter) : swaggerOperation(recordOf(value)),
    ),
  )
}

function swaggerOperation({ parameters, requestBody, responses, ...rest }: JsonObject): JsonObject {
  const body = isRecord(requestBody) ? recordOf(requestBody.content) : undefined
  const all = [
    ...listOf(parameters).map(swaggerParameter),
    ...(body === undefined ? [] : [bodyParameter(recordOf(requestBody), body)]),
  ]
  const produced = Object.values(recordOf(responses)).flatMap(response =>
    Object.keys(recordOf(recordOf(response).content)),
  )
  return {
    ...rest,
    ...(body !== undefined && { consumes: Object.keys(body) }),
    produces: [...new Set(produced)],
    ...(all.length > 0 && { parameters: all }),
    responses: mapValues(recordOf(responses), swaggerResponse),
  }
}

/** Swagger 2.0 has one schema for all media types. */
function bodyParameter({ required }: JsonObject, content: JsonObject): JsonObject {
  const [schema, ...others] = Object.values(content).map(media => toSwaggerSchema(recordOf(media).schema))
  const isCommon = others.every(other => isDeepStrictEqual(other, schema))
  return {
    name: 'body',
    in: 'body',
    ...(required === true && { required }),
    schema: isCommon ? (schema ?? {}) : {},
  }
}

export function swaggerParameter(parameter: unknown): JsonObject {
  const { $ref, schema, style: _style, explode, example: _example, ...rest } = recordOf(parameter)
  if (typeof $ref === 'string') return { $ref: swaggerRef($ref) }
  return { ...rest, ...toSwaggerSchema(schema), ...(explode === true && { collectionFormat: 'multi' }) }
}

/** Returns the response with the schema of its JSON: other media types of it are other forms of the same object. */
export function swaggerResponse(response: unknown): JsonObject {
  const { $ref, description, headers, content } = recordOf(response)
  if (typeof $ref === 'string') return { $ref: swaggerRef($ref) }
  const json = recordOf(content)['application/json']
  return {
    description,
    ...(json !== undefined && { schema: toSwaggerSchema(recordOf(json).schema) }),
    ...(headers !== undefined && { headers: mapValues(recordOf(headers), swaggerHeader) }),
  }
}

function swaggerHeader(header: unknown): JsonObject {
  const { schema, ...rest } = recordOf(header)
  return { ...rest, ...toSwaggerSchema(schema) }
}

function recordOf(value: unknown): JsonObject {
  return isRecord(value) ? value : {}
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
