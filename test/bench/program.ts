import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

/** A program that runs during a benchmark. */
export interface Program extends AsyncDisposable {
  readonly url: URL
  readonly pid: number
}

const root = join(import.meta.dirname, '../..')

interface ProgramOptions {
  /** Go on Node's command line. */
  readonly nodeOptions?: readonly string[]
  /** Path of the program. Default: that of this repository. */
  readonly bin?: string | undefined
}

/**
 * Runs `setpoint serve` with these arguments and the benchmark's plugin. Without a store argument it gets a new store.
 */
export async function startSetpoint(
  args: readonly string[],
  { nodeOptions = [], bin = join(root, 'node_modules/.bin/setpoint') }: ProgramOptions = {},
): Promise<Program> {
  const all = [
    'serve',
    '--listen',
    '127.0.0.1:0',
    '--plugin',
    join(root, 'test/bench/plugin'),
    '--log-level',
    'warn',
    ...args,
  ]
  let cleanUp = async () => {}
  if (!args.includes('--etcd-endpoints') && !args.includes('--data-dir')) {
    const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-bench-'))
    all.push('--data-dir', dataDir)
    cleanUp = () => rm(dataDir, { recursive: true, force: true })
  }
  return listening(
    spawn(process.execPath, [...nodeOptions, bin, ...all], { stdio: ['ignore', 'pipe', 'inherit'] }),
    cleanUp,
  )
}

/** Runs another command of the program to its end. @throws Error if it fails */
export async function runSetpoint(args: readonly string[]): Promise<void> {
  const bin = join(root, 'node_modules/.bin/setpoint')
  const child = spawn(process.execPath, [bin, ...args], { stdio: ['ignore', 'ignore', 'inherit'] })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`setpoint ${args[0]} ended with ${code}`)
}

/** Runs another script of this folder. It reads the response body from standard input and prints its address. */
export function startPeer(script: string, body: string): Promise<Program> {
  const child = spawn(process.execPath, [join(import.meta.dirname, script)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.end(body)
  return listening(child)
}

async function listening(child: ChildProcess, cleanUp = async () => {}): Promise<Program> {
  if (child.stdout === null || child.pid === undefined) throw new Error('the program cannot be run')
  const { pid } = child
  for await (const line of createInterface(child.stdout)) {
    const address = /listening on (http:\S+)/.exec(line)?.[1]
    if (address === undefined) continue
    return {
      url: new URL(address),
      pid,
      async [Symbol.asyncDispose]() {
        child.kill('SIGTERM')
        await once(child, 'exit')
        await cleanUp()
      },
    }
  }
  throw new Error('the program ended before it listened')
}

/** Returns the processor time of a process from Linux, which counts it in hundredths of a second. */
export async function processorMicros(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}
