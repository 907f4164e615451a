import { readFileSync } from 'node:fs'

/** The version of this server: that of its package. */
export function programVersion(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  const manifest: unknown = JSON.parse(text)
  const version: unknown =
    typeof manifest === 'object' && manifest !== null && 'version' in manifest && manifest.version
  return typeof version === 'string' ? version : '0.0.0'
}
