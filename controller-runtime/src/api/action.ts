import type { DeepReadonly } from './deep-readonly.ts'
import { isRecord } from './is-record.ts'
import { type KeysOf, unknownKeys } from './known-keys.ts'
import { type Model, ModelError } from './model.ts'
import { checkDnsLabel } from './names.ts'
import type { ApiObject } from './object.ts'
import type { FromSchema, Schema } from './schema.ts'

/** The input of an action that declares none: an object without fields. */
const noInput = Object.freeze({ type: 'object', additionalProperties: false } as const satisfies Schema)
export type NoInput = typeof noInput

/** What an action takes and returns. */
export interface ActionDeclaration<
  I extends Schema = Schema,
  O extends Schema | undefined = Schema | undefined,
> {
  /** The schema of the request's body, of the type `object`. Default: no fields. */
  readonly input?: I
  /** The schema of the response's body. Default: there is none. */
  readonly output?: O
  /** What the action does, in one sentence, for the generated API documents. */
  readonly summary?: string
}

/** An action of a kind, made by `defineAction`: for the plugin that serves it and for its callers. */
export interface Action<
  T extends ApiObject = ApiObject,
  I extends Schema = Schema,
  O extends Schema | undefined = Schema | undefined,
> {
  readonly model: Model<T>
  /** The last segment of its path: `POST <object>/<name>`. */
  readonly name: string
  readonly input: I
  readonly output: O
  readonly summary: string | undefined
}

/** The input of an action as callers send it. Fields with a default may be absent. */
export type ActionInput<I extends Schema> = DeepReadonly<FromSchema<I, 'write'>>

/** The result of an action for its callers. */
export type ActionOutput<O extends Schema | undefined> = O extends Schema ? FromSchema<O> : undefined

const declarationKeys: KeysOf<ActionDeclaration> = { input: true, output: true, summary: true }

/**
 * Declares an operation on one object of a kind, besides reading and writing it. `PluginContext.action` serves it, and
 * `Client.action` calls it.
 * @throws ModelError that lists every problem of the declaration
 */
export function defineAction<
  T extends ApiObject,
  const I extends Schema = NoInput,
  const O extends Schema | undefined = undefined,
>(model: Model<T>, name: string, declaration?: ActionDeclaration<I, O>): Action<T, I, O>
export function defineAction(model: Model, name: string, declaration: ActionDeclaration = {}): Action {
  const problems = problemsOf(model, name, declaration)
  if (problems.length > 0)
    throw new ModelError(`action ${String(name)} of ${model?.kind ?? '?'}: ${problems.join('; ')}`)
  const { input = noInput, output, summary } = declaration
  return Object.freeze({ model, name, input, output, summary })
}

function problemsOf(model: unknown, name: unknown, declaration: unknown): string[] {
  if (!isRecord(model) || typeof model.plural !== 'string') return ['the model must be made by defineModel']
  if (!isRecord(declaration)) return ['the declaration must be an object such as { input, output }']
  const problems = unknownKeys(declaration, declarationKeys, 'the action')
  const problem = typeof name === 'string' ? checkDnsLabel(name) : 'must be a string'
  if (problem !== undefined) problems.push(`the name ${problem}`)
  const { input, output, summary } = declaration
  if (input !== undefined && (!isRecord(input) || input.type !== 'object'))
    problems.push("input must be a schema with type: 'object'")
  if (output !== undefined && !isRecord(output)) problems.push('output must be a schema')
  if (summary !== undefined && typeof summary !== 'string') problems.push('summary must be a string')
  return problems
}
