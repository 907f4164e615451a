import { Inspected, restingMemory } from '../support/inspector.ts'
import { collection } from './items.ts'
import { startSetpoint } from './program.ts'
import { ScriptProcess } from './script-process.ts'
import type { Row } from './table.ts'

const sockets = 5000
const sample = 3

/** The server's memory per WebSocket with 5,000 idle ones, against ws alone. */
export async function idleSockets(): Promise<Row[]> {
  const heap: [ours: number[], peer: number[]] = [[], []]
  const resident: [ours: number[], peer: number[]] = [[], []]
  for (let round = 0; round < sample; round++) {
    for (const [at, measure] of [ofSetpoint, ofBare].entries()) {
      const each = await measure()
      heap[at]?.push(each.heap)
      resident[at]?.push(each.resident)
    }
  }
  const name = `of each of ${sockets} idle WebSockets, compared with ws alone`
  return [
    { name: `resident memory ${name}`, unit: 'bytes', ours: resident[0], peer: resident[1] },
    { name: `JavaScript heap ${name}`, unit: 'bytes', ours: heap[0], peer: heap[1] },
  ]
}

async function ofSetpoint(): Promise<{ heap: number; resident: number }> {
  const inspected = await Inspected.reserve()
  await using setpoint = await startSetpoint([], inspected)
  return await bytesEach(setpoint.pid, inspected, setpoint.url.href, collection)
}

async function ofBare(): Promise<{ heap: number; resident: number }> {
  const inspected = await Inspected.reserve()
  await using bare = new ScriptProcess('bare-ws.js', inspected.nodeOptions)
  return await bytesEach(bare.pid, inspected, await bare.ask('listen'), '/')
}

async function bytesEach(
  pid: number,
  inspected: Inspected,
  url: string,
  path: string,
): Promise<{ heap: number; resident: number }> {
  await using clients = new ScriptProcess('fleet.js')
  // The first sockets load code, which does not count.
  const some = 100
  await clients.ask('connect', some, url, path)
  const before = await restingMemory(pid, inspected)
  await clients.ask('connect', sockets, url, path)
  const after = await restingMemory(pid, inspected)
  return {
    heap: (after.heap - before.heap) / sockets,
    resident: (after.resident - before.resident) / sockets,
  }
}
