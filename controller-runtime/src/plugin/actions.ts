import type { Action, ActionDeclaration } from '../api/action.ts'
import type { UserInfo } from '../api/hooks.ts'
import type { ApiObject } from '../api/object.ts'
import type { FromSchema, Schema } from '../api/schema.ts'
import type { Client } from '../client/client.ts'
import type { Logger } from '../logger.ts'

/** Passed to the function of an action. */
export interface ActionRequest<T extends ApiObject = ApiObject, I extends Schema = Schema> {
  /** The current object at the hub, a copy. */
  readonly object: T
  /** The body of the request: valid, and with the defaults of its schema. */
  readonly input: FromSchema<I>
  /** The caller. `client.as(user)` can act for the caller until the action ends. */
  readonly user: UserInfo
  /** Acts as the plugin; `client.as(user)` acts for the caller. */
  readonly client: Client
  readonly log: Logger
  /** Aborted when the caller disconnects or the plugin stops. */
  readonly signal: AbortSignal
}

/** What the function of an action returns. Without an `output` schema, the result is ignored. */
export type ActionResult<O extends Schema | undefined> = O extends Schema ? FromSchema<O, 'write'> : unknown

/** Runs an action. If it throws, the server responds with 500, or with the status of an ApiError. */
export type ActionRun<
  T extends ApiObject = ApiObject,
  I extends Schema = Schema,
  O extends Schema | undefined = Schema | undefined,
> = (request: ActionRequest<T, I>) => ActionResult<O> | Promise<ActionResult<O>>

/** An action that is declared where it is served. */
export interface ServedAction<T extends ApiObject, I extends Schema, O extends Schema | undefined>
  extends ActionDeclaration<I, O> {
  readonly run: ActionRun<T, NoInfer<I>, NoInfer<O>>
}

/** An action of a plugin. */
export interface PluginAction {
  readonly action: Action
  run(request: ActionRequest): unknown
}
