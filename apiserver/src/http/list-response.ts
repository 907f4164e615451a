import { setImmediate } from 'node:timers/promises'
import { systemClock } from '@setpoint/controller-runtime'
import type { Revision } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import type { ListForm } from '../kubernetes/index.ts'
import type { ServedVersion } from '../model/index.ts'

const end = Buffer.from(']}')

/** Items between two turns of the event loop: some milliseconds. */
const itemsPerTurn = 16_384

/**
 * Returns the form of a list of objects as they are. Their bytes are neither decoded nor copied. As in Kubernetes,
 * items of built-in kinds have no apiVersion and kind.
 */
export function plainList({
  apiVersion,
  listKind,
  isHub,
  isBuiltIn,
  wirePrefix,
}: Pick<ServedVersion, 'apiVersion' | 'listKind' | 'isHub' | 'isBuiltIn' | 'wirePrefix'>): ListForm {
  // Conversions may be slow.
  const form = {
    head: { apiVersion, kind: listKind },
    fields: {},
    itemsField: 'items',
    isQuick: isHub,
  } as const
  if (!isBuiltIn) return { ...form, itemStart: '', item: bytes => bytes }
  const metadataStart = wirePrefix.lastIndexOf('"metadata":')
  return { ...form, itemStart: '{', item: bytes => bytes.subarray(metadataStart) }
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
  const isJson = form.enclose === undefined
  const head = jsonOf(form.head, { metadata }, fields, form.fields)
  const yielder = form.isQuick ? undefined : new Yielder(systemClock)
  const start = items.length === 0 ? '' : form.itemStart
  const parts: Buffer[] = isJson ? [Buffer.from(`{${head},"${form.itemsField}":[${start}`)] : []
  const between = Buffer.from(`,${form.itemStart}`)
  for (const [at, item] of items.entries()) {
    if (isJson && at > 0) parts.push(between)
    if (at % itemsPerTurn === itemsPerTurn - 1) await setImmediate()
    const pause = yielder?.pause()
    if (pause !== undefined) await pause
    parts.push(form.item(bytesOf(item)))
  }
  if (form.enclose !== undefined) return form.enclose(metadata, parts)
  parts.push(end)
  return parts
}

/** Returns the fields of several objects as those of one. Spreading them into one takes V8 five times as long. */
function jsonOf(...objects: readonly object[]): string {
  const texts = objects.map(object => JSON.stringify(object).slice(1, -1))
  return texts.filter(text => text !== '').join(',')
}
