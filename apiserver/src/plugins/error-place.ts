import { execFile } from 'node:child_process'
import { readFileSync, realpathSync } from 'node:fs'
import { dirname, extname, isAbsolute, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

export const placeDefaults = Object.freeze({
  /** Most modules searched for a syntax error. */
  modules: 100,
  /** Milliseconds for Node to check one module. */
  checkMs: 10_000,
})

/**
 * Returns the place in a plugin's folder where an error was thrown, such as `lib/a.js:3`, or undefined if the stack
 * does not lead into the folder. The plugin's own files take precedence over its node_modules.
 */
export function placeOf(error: unknown, dir: string): string | undefined {
  const places = placesOf(error, dir)
  return places.find(place => !place.includes('node_modules')) ?? places[0]
}

/**
 * Returns the frames of an error's stack that are in a folder, the innermost first, as
 * `<file below the folder>:<line>`.
 */
export function placesOf(error: unknown, dir: string): string[] {
  return placesIn(stackOf(error), dir)
}

/**
 * Returns the stack of an error without the frames that come after the last one of a plugin's own files: how the
 * program has called the plugin says nothing to its author. Returns the whole stack if no frame is of the plugin.
 */
export function stackWithin(error: Error, dir: string): string {
  const lines = stackOf(error).split('\n')
  const isOwn = (line: string) => placesIn(line, dir).some(place => !place.includes('node_modules'))
  const last = lines.findLastIndex(isOwn)
  return lines.slice(0, last < 0 ? lines.length : last + 1).join('\n')
}

function placesIn(stack: string, dir: string): string[] {
  // Stacks name modules by their real paths.
  const folder = realpathSync(dir)
  return framesIn(stack).flatMap(({ location, line }) => {
    const path = pathOf(location)
    const file = path && relative(folder, path)
    return file === undefined || file.startsWith('..') ? [] : [`${file}:${line}`]
  })
}

/** Returns true if the stack of an error has a frame of a module, and not only of Node. */
export function namesModule(error: unknown): boolean {
  return framesIn(stackOf(error)).some(({ location }) => !location.startsWith('node:'))
}

interface Frame {
  /** The URL of an ES module, the path of a CommonJS module, or a name such as `node:net`. */
  readonly location: string
  readonly line: string
}

/** A frame with its location, and the first line of the stack of a syntax error, which is a location. */
const frames = [/^\s*at (?:.*? \()?(?:async )?([^\s()][^()]*?):(\d+):\d+\)?$/, /^(file:.*):(\d+)$/]

function framesIn(stack: string): Frame[] {
  return stack.split('\n').flatMap(text => {
    const [, location, line] = frames.map(frame => frame.exec(text)).find(found => found !== null) ?? []
    return location === undefined || line === undefined ? [] : [{ location, line }]
  })
}

/** The stack of a plugin's error may be any value, and a getter may throw. */
function stackOf(error: unknown): string {
  try {
    const stack: unknown = error instanceof Error ? error.stack : undefined
    return typeof stack === 'string' ? stack : ''
  } catch {
    return ''
  }
}

function pathOf(location: string): string | undefined {
  if (!location.startsWith('file:')) return isAbsolute(location) ? location : undefined
  try {
    return fileURLToPath(location)
  } catch {
    // A URL with a host, which Node does not make.
    return undefined
  }
}

/** The line of a syntax error. */
interface SyntaxPlace {
  /** `<file below the plugin's folder>:<line>` */
  readonly place: string
  readonly text: string
}

/**
 * Finds the first syntax error in a module and the plugin's modules that it imports. Node's error for an imported
 * module lacks the place, which `node --check` prints.
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
