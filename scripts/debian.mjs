/**
 * Downloads a package of Debian with apt and unpacks it. This needs neither root nor existing package lists: it uses the machine's
 * sources with its own lists, cache and locks.
 */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheFolder, fillOnce, isExecutable, reasonOf, run } from './binaries.mjs'

/**
 * Returns the path of a program in `usr/bin` of a package, from a folder in the cache.
 * @param {{ package: string, program: string, folder: string, release?: string }} source `folder` is in the cache folder; without
 *   `release`, the package is that of the machine's release of Debian
 * @param {string} advice ends the error message
 * @returns {Promise<string>}
 * @throws {Error}
 */
export async function debianProgram({ package: name, program, folder, release }, advice) {
  const home = join(cacheFolder(), folder)
  const binary = join(home, 'usr', 'bin', program)
  if (await isExecutable(binary)) return binary
  try {
    await fillOnce(home, work => fetchDebianPackage(name, work, release))
  } catch (error) {
    throw new Error(
      `No ${program} found, and fetching Debian's ${name} failed: ${reasonOf(error)}\n${advice}`,
      { cause: error },
    )
  }
  if (await isExecutable(binary)) return binary
  throw new Error(`Debian's ${name} was unpacked to ${home}, but holds no usr/bin/${program}. ${advice}`)
}

async function fetchDebianPackage(name, work, release) {
  for (const folder of ['lists/partial', 'archives/partial', 'unpacked']) {
    await mkdir(join(work, folder), { recursive: true })
  }
  const options = [
    `Dir::State::lists=${join(work, 'lists')}`,
    `Dir::Cache=${work}`,
    `Dir::Cache::archives=${join(work, 'archives')}`,
    // As root apt changes to a user that may not write into our folder.
    'APT::Sandbox::User=',
    'Acquire::Languages=none',
    ...(release === undefined ? [] : await sourcesOf(release, work)),
  ].flatMap(option => ['-o', option])
  // The update fails if one of several sources is unreachable, but the package may come from another.
  const updated = await run('apt-get', [...options, 'update'], { cwd: work }).catch(error => error)
  try {
    await run('apt-get', [...options, 'download', name], { cwd: work })
  } catch (error) {
    throw updated instanceof Error
      ? new Error(`${reasonOf(updated)}\n${reasonOf(error)}`, { cause: error })
      : error
  }
  const archive = (await readdir(work)).find(file => file.startsWith(`${name}_`) && file.endsWith('.deb'))
  if (!archive) throw new Error('apt-get downloaded nothing')
  await run('dpkg', ['-x', join(work, archive), join(work, 'unpacked')])
  return join(work, 'unpacked')
}

/**
 * Returns options of apt for one release of Debian, from the mirror that the machine uses.
 * @throws {Error} if the machine has no source of Debian
 */
async function sourcesOf(release, work) {
  const folder = '/etc/apt/sources.list.d'
  const lists = (await readdir(folder).catch(() => [])).map(name => join(folder, name))
  const texts = await Promise.all(
    ['/etc/apt/sources.list', ...lists].map(path => readFile(path, 'utf8').catch(() => '')),
  )
  const uris = texts.join('\n').match(/^(?:deb\s+(?:\[[^\]]*\]\s+)?|URIs:\s*)(\S+)/gm) ?? []
  const mirror = uris.map(line => line.split(/\s+/).at(-1)).find(uri => /\/debian\/?$/.test(uri))
  if (mirror === undefined) throw new Error('apt has no source of Debian')
  const path = join(work, 'sources.list')
  await writeFile(path, `deb ${mirror} ${release} main\n`)
  return [`Dir::Etc::sourcelist=${path}`, 'Dir::Etc::sourceparts=-']
}
