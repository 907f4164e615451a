import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))

/** Resolves with what `npm run simulate` prints. Rejects if a judge complains, with the plan. */
export async function simulate(...args: string[]): Promise<string> {
  const { stdout } = await run(process.execPath, ['scripts/simulate.mjs', ...args], {
    cwd: root,
    maxBuffer: 2 ** 26,
  })
  return stdout
}
