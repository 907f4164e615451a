import { execFile } from 'node:child_process'
import { access, cp } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { cacheFolder, fillOnce, reasonOf } from '../../scripts/binaries.mjs'
import { need } from './tools.ts'

await need(findGenerator)

/**
 * Returns the program of openapi-typescript, which is installed into the cache folder at the first use. It needs an
 * older compiler than ours, so it cannot be one of our dependencies. @throws Error if it cannot be installed
 */
export async function findGenerator(): Promise<string> {
  const home = join(cacheFolder(), 'openapi-typescript-7.13.0')
  const program = join(home, 'node_modules/openapi-typescript/bin/cli.js')
  const isInstalled = await access(program).then(
    () => true,
    () => false,
  )
  if (isInstalled) return program
  try {
    await fillOnce(home, install)
  } catch (error) {
    throw new Error(`installing openapi-typescript failed: ${reasonOf(error)}`, { cause: error })
  }
  return program
}

async function install(work: string): Promise<string> {
  await cp(fileURLToPath(new URL('../fixtures/openapi-typescript', import.meta.url)), work, {
    recursive: true,
  })
  await promisify(execFile)('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: work })
  return work
}
