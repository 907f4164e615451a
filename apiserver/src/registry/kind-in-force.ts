import { isApiError } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'
import type { ModelRecords } from './model-record.ts'
import type { WriteOptions, WriteResult } from './write-options.ts'

const inForceDefaults = Object.freeze({
  /** Kinds tried for one write. A definition that changes more often meanwhile leaves the write to its client. */
  kinds: 4,
})

/** Returns the kind that writes depend on now, or undefined if it cannot be told. It may be the same one. */
export type SuccessorOf = (served: ServedModel) => Promise<ServedModel | undefined>

/**
 * Writes with the kind that is in force. A definition may change while a write is under way, on this server or another
 * one. The record of its kind then refuses the write, and it is made again with the next kind, which may still be
 * built.
 * @throws the errors of the write
 */
export async function writeInForce<Options extends Pick<WriteOptions, 'version'>>(
  { records, successorOf }: { readonly records: ModelRecords; readonly successorOf: SuccessorOf },
  served: ServedModel,
  options: Options,
  write: (served: ServedModel, options: Options) => Promise<WriteResult>,
): Promise<WriteResult> {
  let kind = served
  for (let tried = 1; ; tried++) {
    try {
      return await write(kind, tried === 1 ? options : { ...options, version: versionIn(kind, options) })
    } catch (error) {
      const isRefused =
        kind.defined !== undefined &&
        isApiError(error, 'ServiceUnavailable') &&
        records.standingOf(kind)?.name !== 'in force'
      if (!isRefused || tried === inForceDefaults.kinds) throw error
      const next = await successorOf(kind)
      if (next === undefined || versionIn(next, options) === undefined) throw error
      kind = next
    }
  }
}

function versionIn(kind: ServedModel, { version }: Pick<WriteOptions, 'version'>) {
  return version === undefined ? kind.hub : kind.versions.find(({ name }) => name === version.name)
}
