import { type Action, type ActionRequest, linkedSignal } from '@setpoint/controller-runtime'
import { ApiError, ModelError, type ObjectKey } from '@setpoint/controller-runtime/api'
import {
  type HostedPlugin,
  type PluginAction,
  retryAfterSeconds,
} from '@setpoint/controller-runtime/internal'
import type { ServedModel } from '../model/index.ts'
import { badRequest, conflict } from '../registry/index.ts'
import { ActionSchema, textOfCauses } from './action-schema.ts'
import type { ApiRequest, ApiResponse } from './api-request.ts'
import { MethodNotAllowedError, pluginError } from './error-response.ts'
import type { RouteCallers } from './route-callers.ts'
import { RouteConflictError } from './route-conflicts.ts'
import type { RouteRequests } from './route-requests.ts'
import { readInput, readWriteOptions } from './write-parameters.ts'

interface KindActionParts {
  readonly hosted: HostedPlugin
  readonly declared: PluginAction
  readonly callers: RouteCallers
  /** Those of the plugin. */
  readonly requests: RouteRequests
}

/** An action of a plugin's kind: `POST <object>/<name>`, in every version of the kind. */
export class KindAction {
  readonly hosted: HostedPlugin
  readonly action: Action
  /** `<plural>/<name>` */
  readonly title: string
  readonly #parts: KindActionParts
  readonly #input: ActionSchema
  /** Undefined if the action has no output. */
  readonly #output: ActionSchema | undefined

  /** @throws RouteConflictError for a schema that cannot be used */
  constructor(parts: KindActionParts) {
    const { hosted, declared } = parts
    const { name, model, input, output } = declared.action
    this.#parts = parts
    this.hosted = hosted
    this.action = declared.action
    this.title = `${model.plural}/${name}`
    try {
      this.#input = new ActionSchema(input, model.sensitive)
      this.#output = output && new ActionSchema(output, model.sensitive)
    } catch (error) {
      if (!(error instanceof ModelError)) throw error
      throw new RouteConflictError(hosted.plugin.name, `its action ${this.title}: ${error.message}`, {
        cause: error,
      })
    }
  }

  /**
   * Runs the action.
   * @param read returns the current object at the hub. Throws ApiError 404
   * @throws ApiError 400, 405, 409, 413, 415, 422; as the action or its client; 500, 503 for any other error
   */
  async respond(
    served: ServedModel,
    key: ObjectKey,
    request: ApiRequest,
    read: () => Promise<ActionRequest['object']>,
  ): Promise<ApiResponse> {
    if (request.method !== 'POST') throw new MethodNotAllowedError(request.method, ['POST'])
    if (readWriteOptions(request).dryRun) throw badRequest(`the action ${this.title} takes no dryRun`)
    const { value: input, causes } = this.#input.read(await readInput(request))
    if (causes.length > 0) {
      const message = `the input of the action ${this.title} is invalid: ${textOfCauses(causes)}`
      const { group, kind } = served.model
      throw new ApiError('Invalid', message, { group, kind, name: served.nameIn(key), causes: [...causes] })
    }
    const object = await read()
    if (object.metadata.deletionTimestamp !== undefined)
      throw conflict(served, key, 'it is being deleted, and takes no actions')
    const { callers, requests, declared } = this.#parts
    const { client, log, signal } = this.hosted
    const link = linkedSignal(signal, request.whenGone?.())
    const user = callers.enter(request.caller.user)
    requests.begin()
    try {
      return this.#responseOf(await declared.run({ object, input, user, client, log, signal: link.signal }))
    } catch (error) {
      throw this.#refusalOf(error, link.signal)
    } finally {
      requests.end()
      callers.leave(user)
      link.dispose()
    }
  }

  /** @throws TypeError for a result that breaks the schema of the output */
  #responseOf(result: unknown): ApiResponse {
    const headers = { 'cache-control': 'no-cache, private' }
    if (this.#output === undefined) return { status: 204, headers, body: Buffer.alloc(0) }
    const { value, causes } = this.#output.read(result)
    if (causes.length > 0) throw new TypeError(`its output is invalid: ${textOfCauses(causes)}`)
    const json = JSON.stringify(value)
    if (json === undefined) throw new TypeError('it returned nothing, but has an output')
    return {
      status: 200,
      headers: { ...headers, 'content-type': 'application/json' },
      body: Buffer.from(json),
    }
  }

  /** Returns the error of the action for its caller. */
  #refusalOf(error: unknown, signal: AbortSignal): ApiError {
    // Thrown on purpose by the action or by its client.
    if (error instanceof ApiError) return error
    const { plugin, log, signal: stopping } = this.hosted
    const fields = { action: this.title, err: error ?? String(error) }
    if (signal.aborted) log.debug(fields, 'action aborted')
    else log.error(fields, 'action failed')
    return stopping.aborted
      ? new ApiError('ServiceUnavailable', `plugin ${plugin.name} is stopping`, { retryAfterSeconds })
      : pluginError(plugin.name, error)
  }
}
