import { setImmediate } from 'node:timers/promises'
import { systemClock } from '@setpoint/controller-runtime'
import type { Revision } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import type { ListForm } from '../kubernetes/index.ts'
import type { ServedVersion } from '../model/index.ts'

const comma = Buffer.from(',')
const end = Buffer.from(']}')

/** Items between two turns of the event loop: some milliseconds. */
const itemsPerTurn = 16_384

/** Returns the form of a list of objects as they are. Their bytes are neither decoded nor copied. */
export function plainList({
  apiVersion,
  kind,
  isHub,
}: Pick<ServedVersion, 'apiVersion' | 'kind' | 'isHub'>): ListForm {
  const head = { apiVersion, kind: `${kind}List` }
  // Conversions may be slow.
  return { head, fields: {}, itemsField: 'items', isQuick: isHub, item: bytes => bytes }
}

/**
 * Returns a list's body in parts. `chunk` goes into the metadata, `fields` precede the items.
 * @throws the errors of `bytesOf`
 */
export async function listBody<Item>(
  form: ListForm,
  version: Revision,
  chunk: { readonly continue?: string; readonly remainingItemCount?: number },
  fields: object,
  items: readonly Item[],
  bytesOf: (item: Item) => Buffer,
): Promise<Buffer[]> {
  const metadata = { version: String(version), resourceVersion: String(version), ...chunk }
  const head = jsonOf(form.head, { metadata }, fields, form.fields)
  const yielder = form.isQuick ? undefined : new Yielder(systemClock)
  const parts: Buffer[] = [Buffer.from(`{${head},"${form.itemsField}":[`)]
  for (const [at, item] of items.entries()) {
    if (at > 0) parts.push(comma)
    if (at % itemsPerTurn === itemsPerTurn - 1) await setImmediate()
    const pause = yielder?.pause()
    if (pause !== undefined) await pause
    parts.push(form.item(bytesOf(item)))
  }
  parts.push(end)
  return parts
}

/** Returns the fields of several objects as those of one. Spreading them into one takes V8 five times as long. */
function jsonOf(...objects: readonly object[]): string {
  const texts = objects.map(object => JSON.stringify(object).slice(1, -1))
  return texts.filter(text => text !== '').join(',')
}
