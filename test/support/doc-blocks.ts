import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The code blocks of the documentation, and the marks after their language (docs/maintainers/testing.md). */

const root = fileURLToPath(new URL('../../', import.meta.url))

export interface DocBlock {
  /** Path of the page from the root of the repository. */
  readonly page: string
  /** Line of the opening fence, from 1. */
  readonly line: number
  readonly language: string
  /** The words after the language. */
  readonly marks: readonly string[]
  readonly text: string
}

/** Returns `page:line`, for messages. */
export function placeOf({ page, line }: DocBlock): string {
  return `${page}:${line}`
}

/** Returns the file that the reader creates from a block: the mark with an extension. */
export function fileOf({ marks }: DocBlock): string | undefined {
  return marks.find(mark => /^[\w./-]+\.\w+$/.test(mark) && !mark.startsWith('/'))
}

/** Returns the blocks of the pages that contain code to run, in the order of the pages. */
export async function docBlocks(): Promise<DocBlock[]> {
  const docs = (await readdir(join(root, 'docs'), { recursive: true })).sort()
  const plugins = (await readdir(join(root, 'plugins'))).sort()
  const pages = [
    'README.md',
    ...docs.filter(file => /^(guides|reference)\/.*\.md$/.test(file)).map(file => join('docs', file)),
    'docs/maintainers/testing.md',
    'apiserver/README.md',
    'controller-runtime/README.md',
    ...plugins.map(plugin => join('plugins', plugin, 'README.md')),
  ]
  const found = await Promise.all(
    pages.map(async page => blocksOf(page, await readFile(join(root, page), 'utf8'))),
  )
  return found.flat()
}

/** Returns the blocks of one page. @throws Error for a fence that is not closed */
export function blocksOf(page: string, text: string): DocBlock[] {
  const blocks: DocBlock[] = []
  let open: { line: number; info: string; lines: string[] } | undefined
  for (const [index, line] of text.split('\n').entries()) {
    if (!line.startsWith('```')) open?.lines.push(line)
    else if (open === undefined) open = { line: index + 1, info: line.slice(3).trim(), lines: [] }
    else {
      const [language = '', ...marks] = open.info.split(/\s+/)
      blocks.push({ page, line: open.line, language, marks, text: `${open.lines.join('\n')}\n` })
      open = undefined
    }
  }
  if (open !== undefined) throw new Error(`${page}:${open.line}: the code block is not closed`)
  return blocks
}

/** Returns the files that a page lets the reader create, by path. */
export async function filesOfPage(page: string): Promise<Record<string, string>> {
  const path = join(root, page)
  const blocks = blocksOf(relative(root, path), await readFile(path, 'utf8'))
  return Object.fromEntries(
    blocks.flatMap(block => {
      const file = fileOf(block)
      return file === undefined ? [] : [[file, block.text]]
    }),
  )
}
