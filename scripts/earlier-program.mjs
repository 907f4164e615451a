/**
 * Builds the program of an earlier commit of this repository, with the dependencies of that commit, into the cache folder
 * (`.cache` at the repository root, or `SETPOINT_CACHE_DIR`), at its first use. It needs git and the network.
 *
 * As a program it prints the path: `node scripts/earlier-program.mjs COMMIT`.
 */
import { mkdir, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheFolder, fillOnce, reasonOf, run } from './binaries.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** @type {(commit: string) => Promise<string>} */
export async function findEarlierProgram(commit) {
  const id = await idOf(commit)
  const home = join(cacheFolder(), `setpoint-${id.slice(0, 12)}`)
  try {
    await fillOnce(home, work => build(id, work))
  } catch (error) {
    throw new Error(`Building the program of commit ${id} failed: ${reasonOf(error)}`, { cause: error })
  }
  return join(home, 'apiserver', 'bin', 'setpoint.js')
}

/** @param {string} commit */
async function idOf(commit) {
  const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${commit}^{commit}`]
  try {
    const { stdout } = await run('git', args, { cwd: root })
    return stdout.trim()
  } catch (error) {
    const why =
      error.code === 'ENOENT'
        ? 'git is not installed.'
        : 'this repository does not have it. A shallow clone lacks old commits; `git fetch --unshallow` gets them.'
    throw new Error(`The program of commit ${commit} cannot be built: ${why}`, { cause: error })
  }
}

/** `npm ci` also builds, because the package has a script `prepare`. */
async function build(id, work) {
  const sources = join(work, 'sources')
  const archive = join(work, 'sources.tar')
  await mkdir(sources)
  await run('git', ['archive', '--output', archive, id], { cwd: root })
  await run('tar', ['-xf', archive, '-C', sources])
  await run('npm', ['ci', '--prefer-offline', '--no-audit', '--no-fund'], {
    cwd: sources,
    env: ownEnv(),
    maxBuffer: 64 * 1024 * 1024,
  })
  return sources
}

/** npm tells its scripts about the present repository. */
function ownEnv() {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => name !== 'INIT_CWD' && !name.startsWith('npm_')),
  )
}

if (process.argv[1] && (await realpath(process.argv[1]).catch(() => '')) === fileURLToPath(import.meta.url)) {
  try {
    console.log(await findEarlierProgram(process.argv[2] ?? 'HEAD'))
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
