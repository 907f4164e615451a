import { setImmediate } from 'node:timers/promises'
import { systemClock } from '@setpoint/controller-runtime'
import type { Revision } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import type { ServedVersion } from '../model/index.ts'

const comma = Buffer.from(',')
const end = Buffer.from(']}')

/** Items between two turns of the event loop: some milliseconds. */
const itemsPerTurn = 16_384

/**
 * Returns a list's body in parts. The objects' bytes are neither decoded nor copied.
 * `chunk` goes into the metadata, `fields` precede the items. @throws the errors of `bytesOf`
 */
export async function listBody<Item>(
  as: Pick<ServedVersion, 'apiVersion' | 'kind' | 'isHub'>,
  version: Revision,
  chunk: { readonly continue?: string; readonly remainingItemCount?: number },
  fields: object,
  items: readonly Item[],
  bytesOf: (item: Item) => Buffer,
): Promise<Buffer[]> {
  const { apiVersion, kind, isHub } = as
  const metadata = { version: String(version), resourceVersion: String(version), ...chunk }
  const head = JSON.stringify({ apiVersion, kind: `${kind}List`, metadata, ...fields })
  const yielder = new Yielder(systemClock)
  const parts: Buffer[] = [Buffer.from(`${head.slice(0, -1)},"items":[`)]
  for (const [at, item] of items.entries()) {
    if (at > 0) parts.push(comma)
    if (at % itemsPerTurn === itemsPerTurn - 1) await setImmediate()
    // Conversions may be slow.
    const pause = isHub ? undefined : yielder.pause()
    if (pause !== undefined) await pause
    parts.push(bytesOf(item))
  }
  parts.push(end)
  return parts
}
