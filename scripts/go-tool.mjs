/**
 * Builds a program that is written in Go, once, into a cache folder: `.cache/tools` at the repository root, or `tools`
 * in `SETPOINT_CACHE_DIR`.
 */
import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { setPriority, constants as system } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/**
 * The path of the program; built where it is not there yet, which takes minutes the first time.
 * @param {{name: string, package: string, cwd?: string}} tool `name` with what makes it this version and no other;
 *   `package` as `go install` takes it, `cwd` the folder of its module where it is no package at a version
 * @returns {Promise<string>}
 * @throws {Error} saying what is missing
 */
export async function goTool({ name, package: target, cwd = root }) {
  const cache = join(resolve(process.env.SETPOINT_CACHE_DIR ?? join(root, '.cache')), 'tools')
  const binary = join(cache, name)
  if (await isExecutable(binary)) return binary
  await mkdir(cache, { recursive: true })
  const unlock = await lock(join(cache, 'lock'))
  // Into a folder of its own and renamed, so that nobody can see half of it.
  const work = await mkdtemp(join(cache, 'build-'))
  try {
    if (await isExecutable(binary)) return binary
    // Not optimized: that halves the time of the build, and what is built runs for moments.
    await go(['install', '-trimpath', '-ldflags=-s -w', '-gcflags=all=-N -l', target], {
      cwd,
      env: { ...process.env, GOBIN: work, CGO_ENABLED: '0', GOWORK: 'off' },
    })
    const [built] = await readdir(work)
    if (built === undefined) throw new Error(`go install ${target} built nothing`)
    await rename(join(work, built), binary)
    return binary
  } finally {
    await rm(work, { recursive: true, force: true })
    await unlock()
  }
}

/** One build at a time: two at once would compile the same packages twice. Answers how to give the lock back. */
async function lock(file) {
  for (;;) {
    try {
      await writeFile(file, String(process.pid), { flag: 'wx' })
      return () => rm(file, { force: true })
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
      const holder = Number(await readFile(file, 'utf8').catch(() => ''))
      if (holder > 0 && !isAlive(holder)) await rm(file, { force: true })
      else await new Promise(resolve => setTimeout(resolve, 200))
    }
  }
}

function isAlive(pid) {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
}

function go(args, options) {
  return new Promise((resolve, reject) => {
    const child = execFile('go', args, options, (error, _, stderr) => {
      if (!error) resolve(undefined)
      else if (error.code === 'ENOENT') reject(new Error('Go is not installed.'))
      else reject(new Error(`go ${args.join(' ')}: ${stderr.trim().slice(-2_000) || error.message}`))
    })
    // It takes all processors for a minute or two, and other tests measure time.
    if (child.pid !== undefined) setPriority(child.pid, system.priority.PRIORITY_LOW)
  })
}

export function isExecutable(path) {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  )
}
