import { TestRunner, test } from 'vitest'
import { notRun } from './tools.ts'

/** Skips a test file if a program that it needs is missing. With `CI` set the file fails instead. */
export default class extends TestRunner {
  override async importFile(path: string, source: 'collect' | 'setup'): Promise<unknown> {
    try {
      return await super.importFile(path, source)
    } catch (error) {
      // Not instanceof, because the runner and the test files load the class separately.
      if (process.env.CI || !(error instanceof Error) || error.name !== 'MissingTool') throw error
      test.skip(`${notRun}${error.message}`)
      return undefined
    }
  }
}
