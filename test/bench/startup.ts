import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEmbeddedStorage } from '../../apiserver/dist/storage/embedded/index.js'
import { residentBytes } from '../support/inspector.ts'
import { collection, createItems } from './items.ts'
import { startSetpoint } from './program.ts'
import type { Row } from './table.ts'

const count = 100_000

/** 100,000 objects of 1 KiB with three declared indexes: the time to readiness, and their memory. */
export async function startup(): Promise<Row[]> {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-bench-'))
  try {
    const empty = await withServer(dataDir, async ({ pid }) => residentBytes(pid))
    await withServer(dataDir, ({ url }) => createItems(url, count, 700))
    const ready: number[] = []
    const bare: number[] = []
    const resident: number[] = []
    const bytes: number[] = []
    for (let round = 0; round < 3; round++) {
      const begin = performance.now()
      await withServer(dataDir, async ({ url, pid }) => {
        ready.push(performance.now() - begin)
        const one = await (await fetch(new URL(`${collection}/i0000000`, url))).arrayBuffer()
        bytes.push(one.byteLength * count)
        resident.push((await residentBytes(pid)) - empty)
      })
      bare.push(await barePagedRead(dataDir))
    }
    return [
      {
        name: 'start to ready with 100,000 objects of 1 KiB and three indexes, compared with a bare paged read of them from the same store',
        unit: 'ms',
        ours: ready,
        peer: bare,
        aim: { atMost: 3 },
      },
      {
        name: 'resident memory of 100,000 objects of 1 KiB with three indexes, compared with their bytes',
        unit: 'bytes',
        ours: resident,
        peer: bytes,
        aim: { atMost: 2.5 },
      },
    ]
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function withServer<T>(
  dataDir: string,
  use: (server: { url: URL; pid: number }) => Promise<T>,
): Promise<T> {
  await using server = await startSetpoint(['--data-dir', dataDir])
  return await use(server)
}

/** Reads the same bytes page by page in this process and drops them. */
async function barePagedRead(dataDir: string): Promise<number> {
  const begin = performance.now()
  const storage = await openEmbeddedStorage({ dataDir })
  let after = ''
  for (;;) {
    const { pairs, more } = await storage.list('objects/', { limit: 500, ...(after !== '' && { after }) })
    after = pairs.at(-1)?.key ?? ''
    if (!more) break
  }
  const took = performance.now() - begin
  await storage.close()
  return took
}
