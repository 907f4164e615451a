import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { need } from './tools.ts'

await need(async () => {
  await openssl('.', 'version').catch(cause => {
    throw new Error('openssl is not installed; tests make their certificates with it', { cause })
  })
})

/** Runs openssl in `folder`. Tests make their certificates with it. */
export async function openssl(folder: string, ...args: string[]): Promise<void> {
  await promisify(execFile)('openssl', args, { cwd: folder })
}
