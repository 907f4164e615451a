import type { Running } from '../support/server.ts'

/** A program that is started again when it exits, as by a Deployment. */
export class Supervised {
  /** The log of the leader election before each exit without a kill, and the last line. */
  readonly exits: string[] = []
  readonly #run: () => Promise<Running>
  readonly #ended: () => void
  #running: Running | undefined
  #wanted = true
  #killed = false

  /** @param ended is called at each exit, before the next start */
  private constructor(run: () => Promise<Running>, ended: () => void) {
    this.#run = run
    this.#ended = ended
  }

  static async start(run: () => Promise<Running>, ended: () => void = () => {}): Promise<Supervised> {
    const supervised = new Supervised(run, ended)
    await supervised.#start()
    return supervised
  }

  /** Whether it has got the lease. One that loses it exits. */
  get isLeader(): boolean {
    return this.#running?.stderr.includes('successfully acquired lease') ?? false
  }

  /** Kills it. It starts again by itself. */
  async restart(): Promise<void> {
    this.#killed = true
    await this.#running?.kill('SIGKILL')
  }

  async stop(): Promise<void> {
    this.#wanted = false
    await this.#running?.kill('SIGTERM')
  }

  async #start(): Promise<void> {
    const running = await this.#run()
    this.#running = running
    void running.ended.then(({ stderr }) => {
      if (!this.#wanted) return
      if (!this.#killed) this.exits.push(lastWordsOf(stderr))
      this.#killed = false
      this.#ended()
      return this.#start()
    })
  }
}

function lastWordsOf(log: string): string {
  const lines = log.trimEnd().split('\n')
  const ofElection = lines.filter(line => line.includes('leaderelection')).slice(-8)
  return [...ofElection, ...lines.slice(-1)].join('\n    ')
}
