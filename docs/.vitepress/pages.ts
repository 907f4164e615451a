import { posix } from 'node:path'

/**
 * Where the pages of the site come from. The sources are the Markdown files as people read them in the repository: those of `docs`,
 * some beside it, and the rendered names of the SDK.
 */

const beside: Readonly<Record<string, string>> = {
  'CHANGELOG.md': 'changelog.md',
  'CONTRIBUTING.md': 'contributing.md',
  'SECURITY.md': 'security.md',
  'charts/setpoint/README.md': 'operations/chart.md',
  'build/sdk-names.md': 'reference/sdk/names.md',
}

/** The index of the documentation says the same as the README of the repository. */
const home = 'README.md'

/** Files and folders whose Markdown is not for the site. */
export const excluded = [
  home,
  'LICENSE.md',
  ...['.cache', 'apiserver', 'controller-runtime', 'scripts', 'test'].map(folder => `${folder}/**`),
  'plugins/*/*/**',
]

/** Returns the path of a page on the site from that of its file in the repository, both relative. */
export function pageOf(file: string): string {
  const [, plugin] = /^plugins\/([^/]+)\/README\.md$/.exec(file) ?? []
  if (plugin !== undefined) return `plugins/${plugin}.md`
  const inside = file.replace(/^docs\//, '')
  return beside[file] ?? inside.replace(/(^|\/)README\.md$/, '$1index.md')
}

/**
 * Returns the address of a link on the site.
 * @param file the file with the link, relative to the repository
 * @param href a path relative to that file, perhaps with a heading
 * @returns undefined for a file that is not a page, such as a source
 */
export function addressOf(file: string, href: string): string | undefined {
  const [path = '', heading] = href.split('#')
  const hash = heading === undefined ? '' : `#${heading}`
  if (path === '') return hash
  const target = posix.join(posix.dirname(file), path)
  if (target === home) return `/${hash}`
  if (!isPage(target)) return undefined
  return `/${pageOf(target)}${hash}`
}

/** Returns true for a Markdown file that is a page of the site. */
function isPage(file: string): boolean {
  return file in beside || /^docs\/.*\.md$/.test(file) || /^plugins\/[^/]+\/README\.md$/.test(file)
}

/** Returns the anchor of a heading, as the repository's host makes it. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .trim()
    .replaceAll(' ', '-')
}
