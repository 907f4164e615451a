import { readFileSync } from 'node:fs'
import { isRecord } from '@setpoint/controller-runtime/api'
import { packageFolder } from './package-folder.ts'

/** Returns the version of the server's package. */
export function programVersion(): string {
  const { version } = manifest()
  return typeof version === 'string' ? version : '0.0.0'
}

/** Returns the commit that the program was packed from, or '' if it was not packed. */
export function programCommit(): string {
  const { gitHead } = manifest()
  return typeof gitHead === 'string' ? gitHead : ''
}

function manifest(): Readonly<Record<string, unknown>> {
  const content: unknown = JSON.parse(readFileSync(new URL('package.json', packageFolder), 'utf8'))
  return isRecord(content) ? content : {}
}
