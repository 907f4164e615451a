import type { DefaultTheme } from 'vitepress'
import { addressOf } from './pages.ts'

type Item = DefaultTheme.SidebarItem

/**
 * Returns the sidebar that the index of the documentation describes: a group for each heading, a page for the link with which a list
 * item begins.
 */
export function sidebarOf(file: string, index: string): Item[] {
  const groups: Item[] = []
  let items: Item[] = []
  for (const line of index.split('\n')) {
    const [, level, heading] = /^(##|###) (.+)$/.exec(line) ?? []
    if (heading !== undefined) {
      const group = { text: heading, collapsed: groups.length > 0, items: [] }
      if (level === '##') groups.push(group)
      else groups.at(-1)?.items?.push(group)
      items = group.items
    }
    const [, text, href = ''] = /^- \[([^\]]+)\]\(([^)]+)\)/.exec(line) ?? []
    const link = addressOf(file, href)
    if (text !== undefined && link !== undefined) items.push({ text, link })
  }
  return groups.filter(group => group.items?.length)
}
