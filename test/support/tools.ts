/** A program that tests start is missing and cannot be fetched. The message says how to get it. */
export class MissingTool extends Error {
  override readonly name = 'MissingTool'
}

/**
 * Finds or fetches a program. A module that starts one calls this when it is imported, so that only the test files that
 * need the program wait for it.
 * @throws MissingTool
 */
export async function need(find: () => Promise<unknown>): Promise<void> {
  await find().catch((error: Error) => {
    throw new MissingTool(error.message, { cause: error })
  })
}

/** The name of the only test of a skipped file begins with this. */
export const notRun = 'not run: '
