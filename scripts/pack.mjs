/**
 * Packs the program for machines without npm, as `setpoint-<version>-<os>-<cpu>.tgz`, with a file `.sha256` beside it for
 * `sha256sum --check`. The archive has one folder, `setpoint-<version>`.
 *
 *     npm run pack                           for this platform
 *     npm run pack --os=linux --cpu=arm64    for another one
 *     npm run pack -- FOLDER                 into FOLDER rather than the working directory
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { create } from 'tar'
import { run } from './binaries.mjs'

const script = fileURLToPath(new URL('assemble.mjs', import.meta.url))
const manifest = new URL('../apiserver/package.json', import.meta.url)

const [destination = '.'] = process.argv.slice(2)
const { version } = JSON.parse(await readFile(manifest, 'utf8'))
const { npm_config_os: os = process.platform, npm_config_cpu: cpu = process.arch } = process.env
const name = `setpoint-${version}-${os}-${cpu}.tgz`
const file = join(destination, name)

const work = await mkdtemp(join(tmpdir(), 'setpoint-pack-'))
try {
  await run(process.execPath, [script, join(work, `setpoint-${version}`)])
  await create({ file, cwd: work, gzip: true, portable: true }, [`setpoint-${version}`])
} finally {
  await rm(work, { recursive: true, force: true })
}
const hash = createHash('sha256')
await pipeline(createReadStream(file), hash)
await writeFile(`${file}.sha256`, `${hash.digest('hex')}  ${name}\n`)
console.log(file)
