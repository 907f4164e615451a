import { setImmediate } from 'node:timers/promises'
import type { Revision } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'

const comma = Buffer.from(',')
const end = Buffer.from(']}')

/** Items between two turns of the event loop: some milliseconds. */
const itemsPerTurn = 16_384

/**
 * Returns a list's body in parts. The objects' bytes are neither decoded nor copied.
 * `chunk` goes into the metadata, `fields` precede the items.
 */
export async function listBody(
  served: ServedModel,
  version: Revision,
  chunk: { readonly continue?: string; readonly remainingItemCount?: number },
  fields: object,
  items: readonly { readonly bytes: Buffer }[],
): Promise<Buffer[]> {
  const { apiVersion, kind } = served.model
  const metadata = { version: String(version), resourceVersion: String(version), ...chunk }
  const head = JSON.stringify({ apiVersion, kind: `${kind}List`, metadata, ...fields })
  const parts: Buffer[] = [Buffer.from(`${head.slice(0, -1)},"items":[`)]
  for (const [at, item] of items.entries()) {
    if (at > 0) parts.push(comma)
    if (at % itemsPerTurn === itemsPerTurn - 1) await setImmediate()
    parts.push(item.bytes)
  }
  parts.push(end)
  return parts
}
