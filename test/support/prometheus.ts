import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { dump } from 'js-yaml'
import { findPromtool } from '../../scripts/promtool.mjs'
import { arrayOf, type Fields, fieldsOf, textOf } from './json.ts'
import { killAtExit } from './kill-at-exit.js'
import { freePort } from './ports.ts'
import { need } from './tools.ts'
import { eventually } from './worlds.ts'

await need(findPromtool)

/** Runs promtool in a folder. Resolves with its output, also if it fails. */
export async function promtool(cwd: string, ...args: string[]): Promise<{ code: number; output: string }> {
  const binary = await findPromtool()
  return new Promise(resolve => {
    execFile(binary, args, { cwd }, (error, stdout, stderr) => {
      const code = typeof error?.code === 'number' ? error.code : 1
      resolve({ code: error === null ? 0 : code, output: stdout + stderr })
    })
  })
}

/** What a Prometheus scrapes every second. */
export interface Target {
  readonly job: string
  /** `http(s)://host:port` */
  readonly url: string
  readonly token?: string
}

/** A Prometheus on a loopback port. */
export class Prometheus {
  readonly #url: string
  readonly #folder: string
  readonly #child: ChildProcess

  private constructor(url: string, folder: string, child: ChildProcess) {
    this.#url = url
    this.#folder = folder
    this.#child = child
  }

  /** @param rules the text of a file of rules */
  static async start(targets: readonly Target[], rules: string): Promise<Prometheus> {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-prometheus-'))
    const binary = join(dirname(await findPromtool()), 'prometheus')
    const listen = `127.0.0.1:${await freePort()}`
    const config = {
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: ['rules.yaml'],
      scrape_configs: targets.map(({ job, url, token }) => ({
        job_name: job,
        scheme: new URL(url).protocol.slice(0, -1),
        tls_config: { insecure_skip_verify: true },
        ...(token !== undefined && { authorization: { credentials: token } }),
        static_configs: [{ targets: [new URL(url).host] }],
      })),
    }
    await writeFile(join(folder, 'rules.yaml'), rules)
    await writeFile(join(folder, 'prometheus.yml'), dump(config))
    const flags = [
      '--config.file=prometheus.yml',
      `--web.listen-address=${listen}`,
      '--storage.tsdb.path=data',
    ]
    const child = spawn(binary, flags, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
    killAtExit(child)
    let log = ''
    child.stderr?.on('data', (chunk: Buffer) => {
      log = (log + chunk).slice(-4_000)
    })
    const prometheus = new Prometheus(`http://${listen}`, folder, child)
    await eventually(async () => {
      if (child.exitCode !== null) throw new Error(`prometheus has exited: ${log}`)
      if (!(await fetch(`http://${listen}/-/ready`)).ok) throw new Error('prometheus is not ready')
    })
    return prometheus
  }

  /** Returns the series of an instant query. @throws Error if Prometheus refuses it */
  async query(query: string): Promise<readonly Fields[]> {
    const { result } = await this.#data(`/api/v1/query?query=${encodeURIComponent(query)}`)
    return arrayOf(result).map(fieldsOf)
  }

  /** Returns the rules with their `name`, `state` and `health`. */
  async rules(): Promise<readonly Fields[]> {
    const { groups } = await this.#data('/api/v1/rules')
    return arrayOf(groups).flatMap(group => arrayOf(fieldsOf(group).rules).map(fieldsOf))
  }

  async stop(): Promise<void> {
    const exited = once(this.#child, 'exit')
    if (this.#child.kill('SIGTERM')) await exited
    await rm(this.#folder, { recursive: true, force: true })
  }

  async #data(path: string): Promise<Fields> {
    const answer = fieldsOf(await (await fetch(this.#url + path)).json())
    if (answer.status !== 'success') throw new Error(`${textOf(answer.error)}: ${decodeURIComponent(path)}`)
    return fieldsOf(answer.data)
  }
}
