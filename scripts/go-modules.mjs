/**
 * Fetches a Go module for the tests, and returns the folder of its files. Go keeps it in its module cache.
 *
 * Go 1.24 must be on PATH.
 */
import { tmpdir } from 'node:os'
import { reasonOf, run } from './binaries.mjs'

/** @param {{ module: string, sum: string }} source
 *  @returns {Promise<string>} */
export async function findGoModule({ module, sum }) {
  try {
    // Outside the repository, so that no go.mod file changes the version.
    const { stdout } = await run('go', ['mod', 'download', '-json', module], { cwd: tmpdir() })
    const { Dir: folder, Sum: found } = JSON.parse(stdout)
    if (found !== sum) throw new Error(`it has another checksum: ${found}`)
    return folder
  } catch (error) {
    throw new Error(`Fetching ${module} failed: ${reasonOf(error)}\nInstall Go 1.24 and put it on PATH.`, {
      cause: error,
    })
  }
}
