/**
 * Bundles the server and the SDK with their dependencies into `bundle/` of each package, because Node takes most of the
 * start to load hundreds of modules one by one. Run it after the compiler, which checks the types.
 *
 * The server imports the SDK's bundle, which is also the one that plugins get, so both share its classes.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))

/** @type {Record<string, Record<string, string>>} */
const packages = {
  'controller-runtime': {
    index: 'src/index.ts',
    api: 'src/api/index.ts',
    internal: 'src/internal.ts',
    testing: 'src/testing/index.ts',
  },
  apiserver: {
    main: 'src/cli/main.ts',
    testing: 'src/testing/index.ts',
  },
}

/** The SDK's entry for the server. It also exports what the server uses of the packages that both need. */
const sdkInternals = '@setpoint/controller-runtime/internal'

/**
 * Leaves JSON to `JSON.parse`, which is much faster than the same text as code. Most of it are Koa's media types.
 * @type {import('esbuild').Plugin}
 */
const json = {
  name: 'json',
  setup({ onLoad }) {
    onLoad({ filter: /\.json$/ }, async ({ path }) => {
      const value = JSON.parse(await readFile(path, 'utf8'))
      const text = JSON.stringify(path.endsWith('/mime-db/db.json') ? commonTypes(value) : value)
      return { contents: `module.exports = JSON.parse(${JSON.stringify(text)})` }
    })
  },
}

/**
 * Returns the media types without those of vendors. Koa indexes all of them at each start, and looks up few.
 * @param {Record<string, unknown>} types
 */
function commonTypes(types) {
  return Object.fromEntries(Object.entries(types).filter(([type]) => !type.includes('/vnd.')))
}

for (const [name, entryPoints] of Object.entries(packages)) {
  const absWorkingDir = `${root}${name}`
  await rm(`${absWorkingDir}/bundle`, { recursive: true, force: true })
  const { outputFiles } = await build({
    write: false,
    absWorkingDir,
    entryPoints,
    outdir: 'bundle',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    // Node reads shorter files faster.
    minifyWhitespace: true,
    legalComments: 'external',
    // For the positions in stack traces.
    lineLimit: 120,
    alias: {
      // Koa would bring two copies.
      'mime-types': `${root}node_modules/mime-types`,
      ...(name === 'apiserver' && { 'prom-client': sdkInternals }),
    },
    // lmdb and etcd3 load files of their own packages; grpc-js and cockatiel belong to the interface of etcd3.
    external: ['@setpoint/*', 'lmdb', 'etcd3', '@grpc/grpc-js', 'cockatiel'],
    // The CommonJS form of jsonc-parser loads its files in a way that bundlers cannot follow.
    mainFields: ['module', 'main'],
    // CommonJS dependencies require Node's modules. Our own files import `createRequire` by its name.
    banner: {
      js: "import { createRequire as requireOf } from 'node:module'\nconst require = requireOf(import.meta.url)",
    },
    logLevel: 'warning',
    plugins: [json],
  })
  await mkdir(`${absWorkingDir}/bundle`)
  for (const { path, text } of outputFiles) await writeFile(path, path.endsWith('.js') ? inAscii(text) : text)
}

/**
 * Escapes the characters outside of ASCII, which esbuild leaves in regular expressions. With one of them V8 keeps the whole
 * file in two bytes a character.
 * @param {string} code
 */
function inAscii(code) {
  return code.replace(/[^\0-\x7f]/g, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
