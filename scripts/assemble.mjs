/**
 * Assembles the program in a new folder: both packages and the console as npm would publish them, with their dependencies from the
 * lockfile, and without other plugins. The container image and the archive of `npm run pack` are made of it. Run it after the build.
 *
 *     node scripts/assemble.mjs FOLDER
 *
 * npm's settings `os` and `cpu` (`npm_config_os`, `npm_config_cpu`) choose another platform for the native modules.
 */
import { copyFile, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { extract } from 'tar'
import { run } from './binaries.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))

const [given] = process.argv.slice(2)
if (given === undefined) throw new Error('usage: node scripts/assemble.mjs FOLDER')
const folder = resolve(given)
// Another user than the one who unpacks it runs the program.
process.umask(0o022)
await mkdir(folder)
await Promise.all(['apiserver', 'controller-runtime', 'plugins/console'].map(unpackPackage))
for (const file of ['package.json', 'package-lock.json', 'LICENSE'])
  await copyFile(join(root, file), join(folder, file))
// Install scripts are not run: native modules come prebuilt in packages of their own.
const quiet = ['--no-audit', '--no-fund', '--prefer-offline']
await run('npm', ['ci', '--omit=dev', '--ignore-scripts', ...quiet], { cwd: folder })
await mkdir(join(folder, 'bin'))
await symlink('../apiserver/bin/setpoint.js', join(folder, 'bin/setpoint'))

/** Unpacks the files of a package of the repository into the folder. */
async function unpackPackage(name) {
  const work = await mkdtemp(join(tmpdir(), 'setpoint-assemble-'))
  try {
    const packing = ['pack', '--workspace', name, '--ignore-scripts', '--json', '--pack-destination', work]
    const [packed] = JSON.parse((await run('npm', packing, { cwd: root })).stdout)
    await mkdir(join(folder, name), { recursive: true })
    await extract({ file: join(work, packed.filename), cwd: join(folder, name), strip: 1 })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}
