import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { expect } from 'vitest'
import type {
  Change,
  Compare,
  KeyValue,
  ListOptions,
  Operation,
  Storage,
  Transaction,
} from '../../apiserver/src/storage/index.ts'

export const put = (key: string, value: string): Operation => ({
  type: 'put',
  key,
  value: Buffer.from(value),
})
export const del = (key: string): Operation => ({ type: 'delete', key })
export const compare = (key: string, modRevision: Revision): Compare => ({ key, modRevision })
export const change = (onSuccess: readonly Operation[], compares: readonly Compare[] = []): Transaction => ({
  compares,
  onSuccess,
})

export async function commit(
  storage: Storage,
  operations: readonly Operation[],
  compares: readonly Compare[] = [],
): Promise<Revision> {
  const result = await storage.transact(change(operations, compares))
  if (!result.succeeded) throw new Error('a compare failed that should hold')
  return result.revision
}

/** Puts each key with itself as value, in as many transactions as needed. */
export async function commitEach(storage: Storage, keys: readonly string[]): Promise<void> {
  for (let i = 0; i < keys.length; i += 100)
    await commit(
      storage,
      keys.slice(i, i + 100).map(key => put(key, key)),
    )
}

export async function listAll(
  storage: Storage,
  prefix: string,
  options: ListOptions = {},
): Promise<KeyValue[]> {
  const first = await storage.list(prefix, options)
  const pairs = [...first.pairs]
  for (let { more } = first; more; ) {
    const page = await storage.list(prefix, { ...options, revision: first.revision, after: lastKey(pairs) })
    expect(page.revision).toBe(first.revision)
    pairs.push(...page.pairs)
    more = page.more
  }
  return pairs
}

export function lastKey(pairs: readonly KeyValue[]): string {
  const last = pairs.at(-1)
  if (last === undefined) throw new Error('an empty page has `more` set')
  return last.key
}

export const pair = (
  key: string,
  value: string,
  modRevision: Revision,
  createRevision: Revision,
): KeyValue => ({
  key,
  value: Buffer.from(value),
  modRevision,
  createRevision,
})
export const created = (key: string, value: string, revision: Revision): Change => ({
  key,
  revision,
  value: Buffer.from(value),
  previous: undefined,
  createRevision: revision,
})
export const deleted = (key: string, revision: Revision, previous: string): Change => ({
  key,
  revision,
  value: undefined,
  previous: Buffer.from(previous),
  createRevision: zeroRevision,
})

export const text = (one: KeyValue) => `${one.key}=${one.value}`
export const describeChange = (one: Change) =>
  `${one.key}${one.value ? `=${one.value}` : ' deleted'}@${one.revision}`
export const revisionOf = (line: string) => Number(line.slice(line.lastIndexOf('@') + 1))
export const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b))
