import { execFile } from 'node:child_process'
import { mkdtemp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type DocBlock, placeOf } from './doc-blocks.ts'
import { findKubectl } from './kubectl.ts'
import { need } from './tools.ts'

await need(async () => {
  await promisify(execFile)('bash', ['-c', '(( BASH_VERSINFO[0] >= 5 )) && type curl openssl']).catch(
    cause => {
      throw new Error(
        'bash 5, curl or openssl is not installed; the blocks of the documentation run with them',
        { cause },
      )
    },
  )
})

/** One command of a shell block that the walkthrough does not run, with the folder that it was given in. */
export interface StubbedCommand {
  readonly place: string
  readonly cwd: string
  readonly argv: readonly string[]
}

interface ShellRun {
  /** Commands that failed, and requests with another status than the page says. */
  readonly problems: string[]
  readonly stubbed: StubbedCommand[]
  /** The number of requests that were sent. */
  readonly requests: number
}

/**
 * Runs the shell blocks in one shell, in the order of the pages, each page from the folder of the clone.
 *
 * The numbers among a block's marks are the expected statuses of its requests; other requests must succeed. A GET is
 * repeated until it has the expected status. Of an endless watch, only the first line is read. `kubectl` talks to the
 * server. `npm`, `npx` and `node --test` are recorded instead of run, except `npx setpoint token`.
 */
export async function runShell(
  blocks: readonly DocBlock[],
  { clone, url, folder }: { clone: string; url: string; folder: string },
): Promise<ShellRun> {
  const log = join(await mkdtemp(join(folder, 'shell-')), 'log')
  const address = url.replace('http://', '')
  let page: string | undefined
  const script = blocks.map(block => {
    const begin = block.page === page ? '' : 'docs_page\n'
    page = block.page
    const wanted = block.marks.filter(mark => /^\d{3}$/.test(mark)).join(' ')
    // Checks at the interval of the guides would change the objects between its commands.
    const text = block.text
      .replaceAll('127.0.0.1:8090', address)
      .replaceAll('intervalSeconds: 10', 'intervalSeconds: 3600')
    return `${begin}docs_block '${placeOf(block)}' '${wanted}'\n${text}`
  })
  const setUp = await readFile(new URL('../fixtures/docs/walkthrough.sh', import.meta.url), 'utf8')
  const { stderr } = await promisify(execFile)('bash', ['-c', `${setUp}\n${script.join('\n')}`], {
    cwd: clone,
    env: {
      ...process.env,
      LOG: log,
      CLONE: clone,
      NODE: process.execPath,
      KUBECTL: await findKubectl(),
      SERVER: url,
    },
    timeout: 240_000,
    maxBuffer: 64 * 2 ** 20,
  })
  const run: ShellRun & { requests: number } = { problems: [], stubbed: [], requests: 0 }
  let place = ''
  for (const line of (await readFile(log, 'utf8')).trimEnd().split('\n')) {
    const [type, ...fields] = line.split('\t')
    if (type === 'block') place = fields[0] ?? ''
    else if (type === 'stub') {
      const [cwd = '', argv = ''] = fields
      run.stubbed.push({ place, cwd, argv: argv.split('\x1f') })
    } else if (type === 'request') {
      run.requests++
      const [wanted = '', status = '', what] = fields
      if (!new RegExp(`^${wanted}$`).test(status))
        run.problems.push(`${place}: ${status} instead of ${wanted} from ${what}`)
    } else run.problems.push(`${place}: ${fields.join(' ')}`)
  }
  if (stderr !== '') run.problems.push(stderr)
  return run
}
