/**
 * Packs the program for machines without npm, as `setpoint-<version>-<os>-<cpu>.tgz`, with a file `.sha256` beside it for
 * `sha256sum --check`. The archive has one folder, `setpoint-<version>`. Unless the commit has the tag of the version, such as
 * `v0.1.0`, the version is followed by the commit: `0.1.0+a357b72f`, or `0.1.0+a357b72f.modified` with changes on top of it.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { create } from 'tar'
import { run } from './binaries.mjs'

const usage = `npm run pack                           for this platform
npm run pack --os=linux --cpu=arm64    for another one
npm run pack -- FOLDER                 into FOLDER rather than the working directory`

const root = fileURLToPath(new URL('..', import.meta.url))
const script = fileURLToPath(new URL('assemble.mjs', import.meta.url))
const manifest = 'apiserver/package.json'

const { destination, wantsHelp } = argumentsOf(process.argv.slice(2))
if (wantsHelp) console.log(usage)
else await pack(destination)

/** @param {string[]} args */
function argumentsOf(args) {
  try {
    const { values, positionals } = parseArgs({
      args,
      options: { help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    })
    const [destination = '.', ...more] = positionals
    if (more.length > 0) throw new TypeError('one folder is accepted')
    return { destination, wantsHelp: values.help === true }
  } catch (error) {
    console.error(`${error.message}\n\n${usage}`)
    process.exit(2)
  }
}

/** @param {string} destination */
async function pack(destination) {
  const { version } = JSON.parse(await readFile(join(root, manifest), 'utf8'))
  const commit = await commitOf(`v${version}`)
  const folder = `setpoint-${version}${commit?.suffix ?? ''}`
  const { npm_config_os: os = process.platform, npm_config_cpu: cpu = process.arch } = process.env
  const name = `${folder}-${os}-${cpu}.tgz`
  const file = join(destination, name)
  const work = await mkdtemp(join(tmpdir(), 'setpoint-pack-'))
  try {
    await run(process.execPath, [script, join(work, folder)])
    if (commit !== undefined) await addCommit(join(work, folder, manifest), commit.id)
    await create({ file, cwd: work, gzip: true, portable: true }, [folder])
  } finally {
    await rm(work, { recursive: true, force: true })
  }
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  await writeFile(`${file}.sha256`, `${hash.digest('hex')}  ${name}\n`)
  console.log(file)
}

/**
 * Returns the commit, and what it adds to the version; undefined outside of a clone.
 * @param {string} tag of the version
 */
async function commitOf(tag) {
  /** @param {string[]} args */
  const git = async (...args) => (await run('git', args, { cwd: root })).stdout.trim()
  try {
    const id = await git('rev-parse', 'HEAD')
    const isModified = (await git('status', '--porcelain', '--untracked-files=no')) !== ''
    const isReleased = (await git('tag', '--points-at', 'HEAD')).split('\n').includes(tag)
    const suffix = `+${id.slice(0, 8)}${isModified ? '.modified' : ''}`
    return { id, suffix: isReleased && !isModified ? '' : suffix }
  } catch {
    return undefined
  }
}

/** Writes the commit where npm writes it when it publishes a package. The program shows it. */
async function addCommit(path, gitHead) {
  const content = JSON.parse(await readFile(path, 'utf8'))
  await writeFile(path, `${JSON.stringify({ ...content, gitHead }, null, 2)}\n`)
}
