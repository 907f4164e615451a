import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { extend } from './markdown.ts'
import { anchorOf, excluded, pageOf } from './pages.ts'
import { sidebarOf } from './sidebar.ts'

/**
 * The site of the documentation: `npm run docs:dev`, `npm run docs:build`. Its pages are the Markdown files as people read them in the
 * repository, its sidebar is their index, and it loads nothing from elsewhere.
 */

const root = fileURLToPath(new URL('../..', import.meta.url))
const index = 'docs/README.md'

const sidebar = sidebarOf(index, readFileSync(`${root}/${index}`, 'utf8'))
// It is rendered for the site only.
const names = { text: 'Every public name', link: '/reference/sdk/names' }
sidebar
  .flatMap(({ items = [] }) => items)
  .find(({ text }) => text === 'The SDK')
  ?.items?.push(names)

const banner = {
  layout: 'home',
  hero: {
    name: 'Setpoint',
    text: 'Say what you want. Keep it so.',
    tagline:
      'Objects that describe a desired state, an API that streams their changes, and controllers that make them true. The core of Kubernetes, without a cluster.',
    actions: [
      { theme: 'brand', text: 'Getting started', link: '/guides/getting-started' },
      { theme: 'alt', text: 'Why Setpoint', link: '/why' },
      { theme: 'alt', text: 'Concepts', link: '/concepts' },
    ],
  },
}

export default defineConfig({
  title: 'Setpoint',
  description: 'A Kubernetes-style control plane in TypeScript, in one process',
  srcDir: '..',
  srcExclude: excluded,
  rewrites: pageOf,
  cacheDir: '../.cache/vitepress',
  // Without an icon of its own a page makes the browser ask for one.
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  markdown: {
    anchor: { slugify: anchorOf },
    // Braces in the text of a page are text.
    attrs: { disable: true },
    config: md => extend(md, root),
  },
  transformPageData: page => (page.relativePath === 'index.md' ? { frontmatter: banner } : undefined),
  vite: {
    build: { chunkSizeWarningLimit: 2000 },
    // Otherwise Vite looks for the imports of every page of HTML in the repository.
    optimizeDeps: { entries: ['docs/.vitepress/theme/index.ts'] },
  },
  themeConfig: {
    outline: [2, 3],
    search: {
      provider: 'local',
      options: {
        miniSearch: {
          searchOptions: {
            // Whoever searches for a term wants to read about it, and has the names and the reasons of the program further down.
            boostDocument: (id: string) =>
              /^\/(reference\/sdk\/names|maintainers|decisions|changelog)/.test(id) ? 0.3 : 1,
          },
        },
      },
    },
    sidebar,
    nav: [
      { text: 'Why', link: '/why' },
      { text: 'Getting started', link: '/guides/getting-started' },
      { text: 'Operations', link: '/operations/' },
      { text: 'API', link: '/reference/api' },
      { text: 'SDK', link: '/reference/sdk/plugin' },
    ],
  },
})
