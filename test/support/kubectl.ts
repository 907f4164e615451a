import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findKubectl } from '../../scripts/kubernetes-tools.mjs'

/** Runs kubectl against a server without a kubeconfig. Returns its standard output. @throws Error if it fails */
export async function kubectl(serverUrl: string, ...args: string[]): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'setpoint-kubectl-'))
  try {
    const { stdout } = await promisify(execFile)(await findKubectl(), ['--server', serverUrl, ...args], {
      env: { HOME: home },
    })
    return stdout
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}
