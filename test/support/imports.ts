import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Returns true if `file` statically imports `module`, directly or through other modules. Types do not count. */
export function imports(file: string, module: string, seen = new Set<string>()): boolean {
  if (file === module) return true
  if (seen.has(file)) return false
  seen.add(file)
  const text = readFileSync(file, 'utf8')
  const targets = [...text.matchAll(/^(?:import|export) (?!type )[^']*?from '(\.[^']+\.ts)'/gm)]
  return targets.some(([, target = '']) => imports(join(dirname(file), target), module, seen))
}
