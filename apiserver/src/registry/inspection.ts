import type { BareObject, Scope, ServedModel } from '../model/index.ts'
import { Causes } from './causes.ts'
import type { Draft } from './object-draft.ts'
import { invalid } from './refusals.ts'
import { serverUser, type WriteOptions } from './write-options.ts'

/**
 * Lets a kind check what takes several turns of the event loop. Other kinds cost the question.
 * @returns undefined if there is nothing to wait for
 * @throws ApiError 422
 */
export function inspection(
  served: ServedModel,
  draft: Draft | undefined,
  previous: BareObject | undefined,
  scope: Scope,
  { user = serverUser }: Pick<WriteOptions, 'user'>,
): Promise<void> | undefined {
  // A draft that is not indexed only takes away finalizers, which nothing may block.
  if (served.rules?.inspect === undefined || draft === undefined || !draft.isIndexed) return undefined
  return inspect(served.rules.inspect(draft.object, previous, { scope, user }), served, draft)
}

async function inspect(
  found: ReturnType<NonNullable<NonNullable<ServedModel['rules']>['inspect']>>,
  served: ServedModel,
  { object }: Draft,
): Promise<void> {
  const causes = new Causes()
  for (const { reason = 'FieldValueInvalid', ...cause } of await found) causes.add({ ...cause, reason })
  if (!causes.isEmpty) throw invalid(served, object.metadata.name, causes)
}
