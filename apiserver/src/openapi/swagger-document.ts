import { programVersion } from '../program-version.ts'
import { type DocumentOptions, type GroupVersion, kindParts, sharedComponents } from './group-document.ts'
import { OperationIds } from './names.ts'
import { routePaths } from './route-paths.ts'
import { type SwaggerEncoder, SwaggerJson, type SwaggerPart } from './swagger-json.ts'
import { swaggerParameter, swaggerPaths, swaggerResponse } from './swagger-paths.ts'
import { mapValues, toSwaggerSchema } from './swagger-schema.ts'

/** How a document is encoded: as JSON, or as the protobuf message that Kubernetes' clients for Go decode. */
export type SwaggerForm = 'json' | 'protobuf'

/** Returns the Swagger 2.0 document of all group versions. */
export async function swaggerDocument(
  groupVersions: readonly GroupVersion[],
  form: SwaggerForm,
  options: DocumentOptions,
): Promise<Buffer> {
  const encoder = await encoderOf(form)
  for await (const part of swaggerParts(groupVersions, options)) encoder.add(part)
  return encoder.end()
}

/** Loads protobuf when it is first needed. */
async function encoderOf(form: SwaggerForm): Promise<SwaggerEncoder> {
  if (form === 'json') return new SwaggerJson()
  const { SwaggerProtobuf } = await import('./swagger-protobuf.ts')
  return new SwaggerProtobuf()
}

/** Converts the parts of the OpenAPI 3.0 documents, one kind after another. */
async function* swaggerParts(
  groupVersions: readonly GroupVersion[],
  options: DocumentOptions,
): AsyncGenerator<SwaggerPart> {
  const { basePath } = options
  const { schemas, parameters, responses } = sharedComponents(groupVersions, options)
  yield {
    swagger: '2.0',
    info: { title: 'Setpoint', version: programVersion() },
    ...(basePath !== '' && { basePath }),
    securityDefinitions: { BearerToken: { type: 'apiKey', name: 'authorization', in: 'header' } },
    // A token is required only by servers that are configured for tokens.
    security: [{ BearerToken: [] }, {}],
    ...(parameters !== undefined && { parameters: mapValues(parameters, swaggerParameter) }),
    responses: mapValues(responses, swaggerResponse),
    definitions: mapValues(schemas, toSwaggerSchema),
  }
  const ids = new OperationIds()
  for (const of of groupVersions) {
    for await (const { paths, schemas } of kindParts(of, ids, options))
      yield { paths: swaggerPaths(paths), definitions: mapValues(schemas, toSwaggerSchema) }
    yield { paths: swaggerPaths(routePaths(of.routes, ids)) }
  }
}
