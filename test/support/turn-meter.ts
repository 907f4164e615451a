import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const preload = new URL('turn-meter.js', import.meta.url).href

/** Measures the turns of the event loop of a program, which must be started with `env`. Linux only. */
export class TurnMeter {
  readonly #path = join(tmpdir(), `turn-meter-${randomUUID()}`)
  #socket: Socket | undefined

  get env(): Readonly<Record<string, string>> {
    return { NODE_OPTIONS: `--import=${preload}`, TURN_METER: this.#path }
  }

  /** Returns the processor time in milliseconds of the longest turn while `work` is done. */
  async longestTurnMs(work: () => Promise<unknown>): Promise<number> {
    await this.#ask('begin')
    await work()
    return Number(await this.#ask('end'))
  }

  close(): void {
    this.#socket?.destroy()
  }

  async #ask(line: string): Promise<string> {
    this.#socket ??= connect(this.#path)
    this.#socket.write(`${line}\n`)
    const [response] = await once(this.#socket, 'data')
    return String(response)
  }
}
