import { readFileSync } from 'node:fs'
import { isRecord } from '@setpoint/controller-runtime/api'
import { packageFolder } from './package-folder.ts'

/** Returns the version of the server's package. */
export function programVersion(): string {
  const text = readFileSync(new URL('package.json', packageFolder), 'utf8')
  const manifest: unknown = JSON.parse(text)
  const version = isRecord(manifest) ? manifest.version : undefined
  return typeof version === 'string' ? version : '0.0.0'
}
