import { execFile } from 'node:child_process'
import { readFileSync, realpathSync } from 'node:fs'
import { dirname, extname, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

export const placeDefaults = Object.freeze({
  /** Modules of a plugin that are searched for one that does not parse. */
  modules: 100,
  /** Milliseconds for Node to check one of them. */
  checkMs: 10_000,
})

/**
 * Where in a plugin's folder an error was made, by its stack: `lib/a.js:3`. What the plugin has installed counts only
 * where nothing of its own is on the stack. Undefined where nothing of the folder is.
 */
export function placeOf(error: unknown, dir: string): string | undefined {
  const stack: unknown = error instanceof Error ? error.stack : undefined
  if (typeof stack !== 'string') return undefined
  // Modules have the name that the links on the way to them lead to.
  const folder = realpathSync(dir)
  const places: string[] = []
  for (const [, url = '', line] of stack.matchAll(/(file:\/\/[^\s)]+?):(\d+)(?::\d+)?(?=[\s)]|$)/g)) {
    const file = relative(folder, fileURLToPath(url))
    if (!file.startsWith('..')) places.push(`${file}:${line}`)
  }
  return places.find(place => !place.includes('node_modules')) ?? places[0]
}

/** A line of a module at which it does not parse. */
export interface SyntaxPlace {
  /** `<file below the plugin's folder>:<line>` */
  readonly place: string
  readonly text: string
}

/**
 * The first module that does not parse, of one and those of the plugin's own that it imports. Of such a module Node
 * tells an importer what is wrong, but not where; `node --check` tells that.
 */
export async function findSyntaxError(entry: string, dir: string): Promise<SyntaxPlace | undefined> {
  const files = [entry]
  for (let at = 0; at < Math.min(files.length, placeDefaults.modules); at++) {
    const file = files[at] ?? entry
    const line = await failingLine(file)
    const lines = readFileSync(file, 'utf8').split('\n')
    if (line !== undefined) {
      return { place: `${relative(dir, file)}:${line}`, text: lines[line - 1]?.trim() ?? '' }
    }
    for (const imported of relativeImports(lines.join('\n'), file)) {
      if (!files.includes(imported)) files.push(imported)
    }
  }
  return undefined
}

function failingLine(file: string): Promise<number | undefined> {
  return new Promise(done => {
    execFile(
      process.execPath,
      ['--check', file],
      { timeout: placeDefaults.checkMs },
      (error, _stdout, stderr) => {
        const line = error === null ? undefined : /^.*:(\d+)$/m.exec(stderr)?.[1]
        done(line === undefined ? undefined : Number(line))
      },
    )
  })
}

/** Paths of the modules that a text imports by a relative path, statically. It need not be right: they are checked. */
function relativeImports(text: string, file: string): string[] {
  const specifiers = text.matchAll(/^\s*(?:import|export)\b[^'"]*['"](\.\.?\/[^'"]+)['"]/gm)
  return [...specifiers]
    .map(([, specifier = '']) => resolve(dirname(file), specifier))
    .filter(path => ['.js', '.mjs'].includes(extname(path)) && isReadable(path))
}

function isReadable(path: string): boolean {
  try {
    readFileSync(path)
    return true
  } catch {
    return false
  }
}
