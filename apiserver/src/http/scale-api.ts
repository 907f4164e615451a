import { isApiError, type ObjectKey } from '@setpoint/controller-runtime/api'
import type { ScalePaths, ServedModel, ServedVersion } from '../model/index.ts'
import { applyPatch, badRequest, notFound, type Patch, type Registry } from '../registry/index.ts'
import type { ApiRequest, ApiResponse } from './api-request.ts'
import { MethodNotAllowedError } from './error-response.ts'
import { readScale, type Scale, scaleForm, scaleOf, scalePatch } from './scale.ts'
import { warningHeaders } from './warning-headers.ts'
import { readObject, readPatch, readWriteOptions } from './write-parameters.ts'

const scaleMethods = ['GET', 'HEAD', 'PUT', 'PATCH'] as const

const scaleDefaults = Object.freeze({
  /** Attempts of a patch that other writes of its object come before. */
  attempts: 5,
})

/** The object whose Scale a request is for. */
interface Scaled {
  readonly served: ServedModel
  readonly version: ServedVersion
  readonly key: ObjectKey
  readonly paths: ScalePaths
}

/**
 * Responds to a request for the `scale` of an object: reads it, or changes its number of replicas.
 * @param read returns the wire JSON of the object in the version of the request. Throws ApiError 404
 * @throws ApiError 400, 404, 405, 409, 415, 422, 500
 */
export async function respondToScale(
  registry: Registry,
  scaled: Scaled,
  request: ApiRequest,
  read: () => Promise<Buffer>,
): Promise<ApiResponse> {
  const { served, key, paths } = scaled
  if (request.method === 'GET' || request.method === 'HEAD')
    return response(scaleOf(JSON.parse((await read()).toString()), paths))
  if (request.method === 'PUT') {
    const { fieldValidation } = readWriteOptions(request)
    const { document } = await readObject(request, fieldValidation, scaleKind)
    const { replicas, resourceVersion } = readScale(document, served.nameIn(key))
    return change(registry, scaled, request, replicas, resourceVersion)
  }
  if (request.method !== 'PATCH') throw new MethodNotAllowedError(request.method, scaleMethods)
  const patch = await readPatch(request, 'Ignore', scaleKind)
  if (patch.type === 'apply') throw badRequest('a scale is not applied; patch it, or apply its object')
  return patchScale(registry, scaled, request, patch)
}

const scaleKind = { apiVersion: 'autoscaling/v1', kind: 'Scale' }

/** Applies a patch to the newest state. Tries again after a conflict, unless the patch has a version. */
async function patchScale(
  registry: Registry,
  scaled: Scaled,
  request: ApiRequest,
  patch: Patch,
): Promise<ApiResponse> {
  const { served, version, key, paths } = scaled
  for (let tried = 1; ; tried++) {
    const live = await registry.readLive(served, key, version)
    if (live === undefined) throw notFound(served, key)
    const scale = scaleOf(JSON.parse(live.bytes.toString()), paths, true)
    const { replicas, resourceVersion } = readScale(applyPatch(scale, patch), served.nameIn(key))
    try {
      return await change(registry, scaled, request, replicas, resourceVersion)
    } catch (error) {
      const isOwn = resourceVersion === scale.metadata.resourceVersion
      if (!isApiError(error, 'Conflict') || !isOwn || tried === scaleDefaults.attempts) throw error
    }
  }
}

async function change(
  registry: Registry,
  { served, version, key, paths }: Scaled,
  request: ApiRequest,
  replicas: number,
  resourceVersion: string | undefined,
): Promise<ApiResponse> {
  const options = { ...readWriteOptions(request), version, form: scaleForm(paths) }
  const patch = scalePatch(replicas, paths, resourceVersion)
  const { bytes, warnings } = await registry.patch(served, key, patch, 'object', options)
  return response(scaleOf(JSON.parse(bytes.toString()), paths), warnings)
}

function response(scale: Scale, warnings: readonly string[] = []): ApiResponse {
  const warning = warnings.length > 0 && { warning: warningHeaders(warnings) }
  return {
    status: 200,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-cache, private', ...warning },
    body: Buffer.from(JSON.stringify(scale)),
  }
}
