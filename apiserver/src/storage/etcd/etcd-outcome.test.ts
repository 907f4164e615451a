import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type EtcdProcess, patientMs, startEtcd } from '../../../../test/support/etcd.ts'
import { follow } from '../../../../test/support/follow.ts'
import { startTcpProxy, type TcpProxy } from '../../../../test/support/tcp-proxy.ts'
import {
  type Operation,
  OutcomeUnknownError,
  type Storage,
  StoreUnavailableError,
  type Transaction,
} from '../contract.ts'
import { openEtcdStorage } from './index.ts'

let etcd: EtcdProcess
let proxy: TcpProxy
/** Connected through the proxy. */
let storage: Storage
let direct: Storage
let prefix: string
let prefixes = 0

beforeAll(async () => {
  etcd = await startEtcd({ unsafeNoFsync: true })
})
afterAll(() => etcd?.stop())
beforeEach(async () => {
  proxy = await startTcpProxy(etcd)
  prefix = `/outcome/${prefixes++}`
  storage = await openEtcdStorage({ endpoints: [proxy.endpoint], prefix, deadlineMs: 30_000 })
  direct = await openEtcdStorage({ endpoints: [etcd.endpoint], prefix, deadlineMs: patientMs })
})
afterEach(async () => {
  await storage.close()
  await direct.close()
  await proxy.close()
})

const put = (key: string, value: string): Operation => ({ type: 'put', key, value: Buffer.from(value) })
const del = (key: string): Operation => ({ type: 'delete', key })

async function commit(...onSuccess: Operation[]): Promise<Revision> {
  return (await direct.transact({ compares: [], onSuccess })).revision
}

/** Loses the response in the proxy, and runs `meanwhile` before the outcome can be looked up. */
async function loseAnswer(
  transaction: Transaction,
  meanwhile: () => Promise<unknown> = async () => {},
  before: () => Promise<unknown> = async () => {},
) {
  // Connects first, so the next bytes from the server are the response.
  await storage.head()
  await before()
  const lost = proxy.cutNextAnswer()
  const result = storage.transact(transaction)
  result.catch(() => {})
  await lost
  await proxy.refuse()
  await meanwhile()
  await proxy.accept()
  return result
}

describe('a transaction on etcd whose response is lost', () => {
  test('is found to have happened: an update', async () => {
    const old = await commit(put('a', 'old'))
    const result = await loseAnswer({
      compares: [{ key: 'a', modRevision: old }],
      onSuccess: [put('a', 'new')],
    })
    const { pair } = await direct.get('a')
    expect(pair?.value.toString()).toBe('new')
    expect(result).toEqual({ succeeded: true, revision: pair?.modRevision })
  })

  test('is found to have happened: a creation that others have overwritten', async () => {
    let made: Revision = zeroRevision
    const result = await loseAnswer(
      { compares: [{ key: 'a', modRevision: zeroRevision }], onSuccess: [put('a', 'mine')] },
      async () => {
        made = (await direct.get('a')).pair?.modRevision ?? zeroRevision
        await commit(put('a', 'theirs'))
        await commit(put('a', 'theirs'))
      },
    )
    expect(made).toBeGreaterThan(0)
    expect(result).toEqual({ succeeded: true, revision: made })
  })

  test('is found to have happened: an update that others have overwritten, deleted and recreated', async () => {
    const old = await commit(put('a', 'old'))
    let made: Revision = zeroRevision
    const result = await loseAnswer(
      { compares: [{ key: 'a', modRevision: old }], onSuccess: [put('a', 'mine')] },
      async () => {
        made = (await direct.get('a')).pair?.modRevision ?? zeroRevision
        await commit(del('a'))
        for (let i = 0; i < 20; i++) await commit(put('b', `${i}`))
        await commit(put('a', 'mine'))
      },
    )
    expect(made).toBeGreaterThan(old)
    expect(result).toEqual({ succeeded: true, revision: made })
  })

  test('is found to have happened: a deletion', async () => {
    const old = await commit(put('a', 'old'))
    const result = await loseAnswer(
      { compares: [{ key: 'a', modRevision: old }], onSuccess: [del('a')] },
      async () => {
        await commit(put('b', '1'))
        await commit(put('b', '2'))
      },
    )
    expect((await direct.get('a')).pair).toBeUndefined()
    expect(result.succeeded).toBe(true)
    expect((await direct.list('', { revision: result.revision })).pairs.map(p => p.key)).toEqual([])
  })

  test.each(['after its last read', 'before its last read'])(
    'is found to be refused, with the state that refuses it, by an equal value written %s',
    async when => {
      const old = await commit(put('a', 'old'))
      let theirs: Revision = zeroRevision
      const refuse = async () => {
        theirs = await commit(put('a', 'new'))
      }
      if (when === 'before its last read') await refuse()
      const result = await loseAnswer(
        {
          compares: [{ key: 'a', modRevision: old }],
          onSuccess: [put('a', 'new')],
          onFailure: ['a', 'missing'],
        },
        undefined,
        when === 'before its last read' ? undefined : refuse,
      )
      expect(result.succeeded).toBe(false)
      expect(!result.succeeded && result.pairs[0]?.modRevision).toBe(theirs)
      expect(!result.succeeded && result.pairs[1]).toBeUndefined()
    },
  )

  test('is found to have happened: a creation that others have deleted', async () => {
    let made: Revision = zeroRevision
    const result = await loseAnswer(
      { compares: [{ key: 'a', modRevision: zeroRevision }], onSuccess: [put('a', 'mine')] },
      async () => {
        made = (await direct.get('a')).pair?.modRevision ?? zeroRevision
        await commit(del('a'))
      },
    )
    expect(made).toBeGreaterThan(0)
    expect(result).toEqual({ succeeded: true, revision: made })
  })

  test('is found to have happened: one without compares, among many that are lost', async () => {
    await storage.head()
    const cut = proxy.cutNextAnswer()
    const values = Array.from({ length: 50 }, (_, n) => `${n}`)
    const results = Promise.all(
      values.map(value => storage.transact({ compares: [], onSuccess: [put('a', value)] })),
    )
    await cut
    const told = (await results).map(({ revision }) => revision)
    const watch = follow(direct, 'a', zeroRevision)
    await watch.reaches(await commit(put('a', 'last')))
    const seen = watch.changes.filter(({ value }) => `${value}` !== 'last')
    // Each happened once, as reported.
    const byValue = seen.sort((one, other) => Number(one.value) - Number(other.value))
    expect(byValue.map(({ value }) => `${value}`)).toEqual(values)
    expect(byValue.map(({ revision }) => revision)).toEqual(told)
  })

  test('stays unknown if the caller aborts', async () => {
    await storage.head()
    const controller = new AbortController()
    await etcd.pause()
    try {
      const sent = storage.transact(
        { compares: [], onSuccess: [put('a', '1')] },
        { signal: controller.signal },
      )
      setImmediate(() => controller.abort())
      await expect(sent).rejects.toSatisfy(
        error => error instanceof OutcomeUnknownError || error instanceof StoreUnavailableError,
      )
    } finally {
      etcd.resume()
    }
  })

  test('is reported as not happened if it was never sent', async () => {
    const impatient = await openEtcdStorage({ endpoints: [proxy.endpoint], prefix, deadlineMs: 1_000 })
    await expect.poll(() => impatient.head().catch(() => undefined)).toBeDefined()
    await proxy.refuse()
    // The first may have been sent into the broken connection, so its outcome may be unknown.
    const first = impatient.transact({ compares: [], onSuccess: [put('a', '1')] })
    await expect(first).rejects.toSatisfy(
      error => error instanceof OutcomeUnknownError || error instanceof StoreUnavailableError,
    )
    const second = impatient.transact({ compares: [], onSuccess: [put('a', '2')] })
    await expect(second).rejects.toBeInstanceOf(StoreUnavailableError)
    await proxy.accept()
    await impatient.close()
    expect((await direct.get('a')).pair).toBeUndefined()
  })

  test('is never misreported, with connections cut at any byte under contention', async () => {
    const watch = follow(direct, 'objects/', zeroRevision)
    const succeeded = new Map<string, Revision>()
    const refused: string[] = []
    // Within responses, and within the first frames of a connection.
    proxy.cutAt([400, 1_000, 30, 700, 2_500, 0, 150, 3_000, 600, 1_700, 90, 2_000, 500, 1_300, 800, 250])
    await Promise.all(
      Array.from({ length: 6 }, async (_, lane) => {
        for (let i = 0; i < 40 || proxy.cutsLeft > 0 || succeeded.size === 0; i++) {
          // A reset may also drop what was sent before.
          if (lane === 0 && i % 10 === 5) proxy.cut()
          const key = `objects/${lane % 2}`
          const value = `${lane}/${i}`
          const old = (await direct.get(key)).pair?.modRevision ?? zeroRevision
          const operation = i % 7 === 6 ? del(key) : put(key, value)
          try {
            const result = await storage.transact({
              compares: [{ key, modRevision: old }],
              onSuccess: [operation],
            })
            if (operation.type === 'delete') continue
            if (result.succeeded) succeeded.set(value, result.revision)
            else refused.push(value)
          } catch (error) {
            if (error instanceof StoreUnavailableError) refused.push(value)
            // The cuts end long before the deadline, so every outcome is found.
            else throw error
          }
        }
      }),
    )
    await watch.reaches(await commit(put('objects/last', 'last')))
    const happened = new Map(watch.changes.filter(c => c.value).map(c => [`${c.value}`, c.revision]))
    for (const [value, revision] of succeeded) expect(happened.get(value)).toBe(revision)
    for (const value of refused) expect(happened.has(value)).toBe(false)
  })

  // Last, because it compacts the etcd that all tests share.
  test('stays unknown when the history is compacted meanwhile', async () => {
    const lost = loseAnswer(
      { compares: [{ key: 'a', modRevision: zeroRevision }], onSuccess: [put('a', 'mine')] },
      async () => {
        await commit(put('b', '1'))
        await direct.compact(await commit(put('b', '2')))
      },
    )
    await expect(lost).rejects.toBeInstanceOf(OutcomeUnknownError)
  })
})
