import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

/** A program of ours that runs beside the load generator until it is stopped. */
export interface Program extends AsyncDisposable {
  readonly url: URL
}

/** Runs `setpoint serve` with these arguments and the bench's own plugin. */
export async function startSetpoint(args: readonly string[]): Promise<Program> {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-bench-'))
  const plugin = join(import.meta.dirname, '../../test/bench/plugin')
  const bin = join(import.meta.dirname, '../../node_modules/.bin/setpoint')
  const all = ['serve', '--listen', '127.0.0.1:0', '--plugin', plugin, '--log-level', 'warn', ...args]
  if (!args.includes('--etcd-endpoints')) all.push('--data-dir', dataDir)
  return listening(spawn(bin, all, { stdio: ['ignore', 'pipe', 'inherit'] }), () =>
    rm(dataDir, { recursive: true, force: true }),
  )
}

/** Runs another script of this folder, which prints the address that it listens on. */
export function startPeer(script: string): Promise<Program> {
  return listening(
    spawn(process.execPath, [join(import.meta.dirname, script)], { stdio: ['ignore', 'pipe', 'inherit'] }),
  )
}

async function listening(child: ChildProcess, cleanUp = async () => {}): Promise<Program> {
  if (child.stdout === null) throw new Error('no standard output')
  for await (const line of createInterface(child.stdout)) {
    const address = /listening on (http:\S+)/.exec(line)?.[1]
    if (address === undefined) continue
    return {
      url: new URL(address),
      async [Symbol.asyncDispose]() {
        child.kill('SIGTERM')
        await once(child, 'exit')
        await cleanUp()
      },
    }
  }
  throw new Error('the program ended before it listened')
}
