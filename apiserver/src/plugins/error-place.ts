import { execFile } from 'node:child_process'
import { readFileSync, realpathSync } from 'node:fs'
import { dirname, extname, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

export const placeDefaults = Object.freeze({
  /** Most modules searched for a syntax error. */
  modules: 100,
  /** Milliseconds for Node to check one module. */
  checkMs: 10_000,
})

/**
 * Returns the place in a plugin's folder where an error was thrown, such as `lib/a.js:3`, or undefined if the stack does
 * not lead into the folder. The plugin's own files take precedence over its node_modules.
 */
export function placeOf(error: unknown, dir: string): string | undefined {
  const places = placesOf(error, dir)
  return places.find(place => !place.includes('node_modules')) ?? places[0]
}

/** Returns the frames of an error's stack that are in a folder, the innermost first, as `<file below the folder>:<line>`. */
export function placesOf(error: unknown, dir: string): string[] {
  const stack: unknown = error instanceof Error ? error.stack : undefined
  if (typeof stack !== 'string') return []
  // Stacks name modules by their real paths.
  const folder = realpathSync(dir)
  const places: string[] = []
  for (const [, url = '', line] of stack.matchAll(/(file:\/\/[^\s)]+?):(\d+)(?::\d+)?(?=[\s)]|$)/g)) {
    const file = relative(folder, fileURLToPath(url))
    if (!file.startsWith('..')) places.push(`${file}:${line}`)
  }
  return places
}

/** The line of a syntax error. */
interface SyntaxPlace {
  /** `<file below the plugin's folder>:<line>` */
  readonly place: string
  readonly text: string
}

/**
 * Finds the first syntax error in a module and the plugin's modules that it imports. Node's error for an imported module
 * lacks the place, which `node --check` prints.
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

/** Returns the paths of static relative imports in a text. An approximation: each path is checked afterwards. */
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
