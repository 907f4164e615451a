/**
 * Bundles the console into `plugins/console/pages`: files with a hash in their names, each also compressed, and the page that
 * loads them. Editor, plots and sign-in are chunks of their own, which are loaded when they are needed.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { build } from 'esbuild'

/**
 * CodeMirror makes its styles at run time. Its own way, an inline style element, is forbidden by the Content-Security-Policy.
 * @type {import('esbuild').Plugin}
 */
const styleModule = {
  name: 'style-module',
  setup({ onResolve }) {
    const ours = fileURLToPath(new URL('../plugins/console/web/editor/style-module.ts', import.meta.url))
    onResolve({ filter: /^style-mod$/ }, ({ importer }) => (importer === ours ? undefined : { path: ours }))
  },
}

const home = fileURLToPath(new URL('../plugins/console/', import.meta.url))
const pages = `${home}pages`

await rm(pages, { recursive: true, force: true })
await mkdir(pages)
const { outputFiles, metafile } = await build({
  write: false,
  absWorkingDir: home,
  entryPoints: { console: 'web/main.tsx', style: 'web/style/index.css', icon: 'web/icon.svg' },
  outdir: 'pages/assets',
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  assetNames: '[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  target: ['es2022', 'chrome111', 'firefox115', 'safari16.4'],
  minify: true,
  legalComments: 'eof',
  // uPlot fails on a language that is not well-formed, as browsers take it from the environment of tests.
  define: { 'navigator.language': '"en"' },
  loader: { '.svg': 'copy' },
  jsx: 'automatic',
  jsxImportSource: 'preact',
  plugins: [styleModule],
  metafile: true,
  logLevel: 'warning',
})

/** @param {string} name */
function built(name) {
  const found = Object.entries(metafile.outputs).find(([, { entryPoint }]) => entryPoint === name)
  if (found === undefined) throw new Error(`esbuild made nothing of ${name}`)
  return `assets/${basename(found[0])}`
}

/** @param {string} script */
function chunksOf(script) {
  const { imports = [] } = metafile.outputs[`pages/${script}`] ?? {}
  return imports
    .filter(({ kind }) => kind === 'import-statement')
    .map(({ path }) => `assets/${basename(path)}`)
}

const script = built('web/main.tsx')
const page = (await readFile(`${home}web/index.html`, 'utf8'))
  .replace('main.tsx', script)
  .replace('style.css', built('web/style/index.css'))
  .replace('icon.svg', built('web/icon.svg'))
  .replace(
    '<!-- chunks -->',
    chunksOf(script)
      .map(chunk => `<link rel="modulepreload" href="${chunk}" />`)
      .join('\n    '),
  )
await writeFile(`${pages}/index.html`, page)
await mkdir(`${pages}/assets`)
await Promise.all(
  outputFiles.map(async ({ path, contents }) => {
    await writeFile(path, contents)
    const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }
    await writeFile(`${path}.br`, await promisify(brotliCompress)(contents, quality))
    await writeFile(`${path}.gz`, await promisify(gzip)(contents, { level: 9 }))
  }),
)
