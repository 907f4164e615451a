import type { BareObject } from './bare-object.ts'

/** Lets go of what was kept. */
export type Release = () => void

/** A conversion that is asked for. */
export interface Conversion {
  readonly object: BareObject
  /** The apiVersion of the result. */
  readonly to: string
}

/**
 * Converts the objects of a kind by asking somebody outside of this process. The code that converts is synchronous, so
 * it first finds that an outcome is not known, and runs again when it is:
 *
 *     convert ──not known──▶ ConversionNeeded ──prepare──▶ asked, and the outcome kept ──▶ convert ──▶ released
 */
export interface Converter {
  /**
   * Returns an object in another version: a copy of its own.
   * @param to the apiVersion of the result
   * @throws ConversionError if it has failed; ConversionNeeded if the outcome is not known
   */
  convert(object: BareObject, to: string): BareObject
  /**
   * Resolves when each object has been converted or has failed. Until the release, `convert` then has the outcome.
   * @param signal ends the wait, not a request that others may wait for
   * @throws the signal's reason
   */
  prepare(conversions: readonly Conversion[], signal?: AbortSignal): Promise<Release>
}

/** The outcome of a conversion is not known yet. It is no error of the client: the caller asks and then goes on. */
export class ConversionNeeded extends Error implements Conversion {
  override readonly name = 'ConversionNeeded'
  readonly converter: Converter
  readonly object: BareObject
  /** The apiVersion to convert to. */
  readonly to: string

  constructor(converter: Converter, object: BareObject, to: string) {
    super(`${object.kind} ${JSON.stringify(object.metadata.name)} has not been converted to ${to}`)
    this.converter = converter
    this.object = object
    this.to = to
  }
}

/**
 * Runs a function, and runs it again after each conversion that it needs. The function must be the same each time: it
 * changes nothing before its last conversion.
 * @throws the errors of the function, but ConversionNeeded; the signal's reason
 */
export async function converting<T>(run: () => T | Promise<T>, signal?: AbortSignal): Promise<Awaited<T>> {
  const releases: Release[] = []
  try {
    for (;;) {
      try {
        return await run()
      } catch (error) {
        if (!(error instanceof ConversionNeeded)) throw error
        releases.push(await error.converter.prepare([error], signal))
      }
    }
  } finally {
    for (const release of releases) release()
  }
}
