import { describe, expect, expectTypeOf, test } from 'vitest'
import { Gadget } from '../../../../test/support/sdk/sample-models.ts'
import { isApiError } from '../../api/errors.ts'
import { defineModel, type ObjectOf } from '../../api/model.ts'
import { setControllerReference } from '../../api/owners.ts'
import type { Client } from '../../client/client.ts'
import type { ControllerBuilder } from '../../controller/builder.ts'
import { anyChange } from '../../controller/predicates.ts'
import type { ReconcileContext } from '../../controller/reconcile.ts'
import { definePlugin } from '../../plugin/plugin.ts'
import { ConformanceError, type ReconcilerUnderTest, reconcilerConformance } from './index.ts'

type GadgetObject = ObjectOf<typeof Gadget>

/** What the reconciler of gadgets creates in the API: one part for each gadget. */
const Part = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Part',
  singular: 'part',
  plural: 'parts',
  schema: { spec: { type: 'object', properties: { of: { type: 'string' }, size: { type: 'integer' } } } },
})

/** What it creates outside of the API. */
class Cloud {
  readonly machines = new Map<string, number>()
  isDown = false

  put(id: string, size: number): void {
    this.#check()
    this.machines.set(id, size)
  }

  remove(id: string): void {
    this.#check()
    this.machines.delete(id)
  }

  #check(): void {
    if (this.isDown) throw new Error('the cloud is down')
  }
}

const finalizer = 'demo.example.com/machine'

function gadgets(controller: Build, more: Partial<ReconcilerUnderTest<GadgetObject, Cloud>> = {}) {
  return reconcilerConformance<GadgetObject, Cloud>({
    model: Gadget,
    models: [Part],
    controller: (builder, { outside }) => controller(builder, outside),
    outside: () => new Cloud(),
    objects: () => ['a', 'b', 'c'].map(name => ({ metadata: { name }, spec: { size: 1 } })),
    changes: () => [{ spec: { size: 2 } }, { spec: { size: 3 } }, { spec: { size: 2 } }],
    isConverged: ({ object, outside }) =>
      object.status?.seen === object.spec.size &&
      outside.machines.get(object.metadata.uid) === object.spec.size,
    isCleanedUp: async ({ object, outside, client }) =>
      !outside.machines.has(object.metadata.uid) &&
      (await client.getIfExists(Part, `${object.metadata.name}-part`)) === undefined,
    world: ({ outside }) => [...outside.machines.values()].sort(),
    outages: {
      'the cloud is down': async cloud => {
        await Promise.resolve()
        cloud.isDown = true
        return () => {
          cloud.isDown = false
        }
      },
    },
    ...more,
  })
}

async function putPart(client: Client, { metadata, spec }: GadgetObject): Promise<void> {
  const name = `${metadata.name}-part`
  try {
    await client.create(Part, { metadata: { name }, spec: { of: metadata.uid, size: spec.size } })
  } catch (error) {
    if (!isApiError(error, 'AlreadyExists')) throw error
    await client.patch(Part, name, { spec: { of: metadata.uid, size: spec.size } })
  }
}

async function removePart(client: Client, { metadata }: GadgetObject): Promise<void> {
  await client.delete(Part, `${metadata.name}-part`).catch(error => {
    if (!isApiError(error, 'NotFound')) throw error
  })
}

type Build = (builder: ControllerBuilder<GadgetObject>, cloud: Cloud) => unknown

const careful: Build = (builder, cloud) =>
  builder
    .reconcile(async (gadget, { client }) => {
      cloud.put(gadget.metadata.uid, gadget.spec.size)
      await putPart(client, gadget)
      await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
    })
    .finalize(finalizer, async (gadget, { client }) => {
      await removePart(client, gadget)
      cloud.remove(gadget.metadata.uid)
    })

describe('a correct reconciler of objects in and outside of the API passes', () => {
  gadgets(careful).register(test.concurrent)
})

describe('one in a plugin that uses requeueAfterMs passes', () => {
  reconcilerConformance<GadgetObject, Cloud>({
    model: Gadget,
    plugin: ({ outside }) =>
      definePlugin({
        name: 'gadgets',
        models: [Gadget],
        setup(plugin) {
          plugin.controller(Gadget, builder =>
            builder
              .reconcile(async (gadget, { client }) => {
                const { uid } = gadget.metadata
                // Two runs: the first orders it, the second reports it.
                const ordered = outside.machines.has(uid)
                outside.put(uid, gadget.spec.size)
                if (!ordered) return { requeueAfterMs: 1_000 }
                await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
                return { requeueAfterMs: 60_000 }
              })
              .finalize(finalizer, gadget => outside.remove(gadget.metadata.uid)),
          )
        },
      }),
    outside: () => new Cloud(),
    objects: () => [{ metadata: { name: 'a' }, spec: { size: 1 } }],
    isConverged: ({ object }) => object.status?.seen === object.spec.size,
    isCleanedUp: ({ object, outside }) => !outside.machines.has(object.metadata.uid),
    world: ({ outside }) => [...outside.machines],
  }).register(test.concurrent)
})

describe('one whose plugin has two controllers passes, although their calls differ in number and order', () => {
  const done = 'demo.example.com/done'
  let lifecycles = 0
  const { cases } = reconcilerConformance<GadgetObject, { readonly reads: number }>({
    model: Gadget,
    models: [Part],
    plugin: ({ outside }) =>
      definePlugin({
        name: 'gadgets',
        models: [Gadget, Part],
        setup(plugin) {
          plugin.controller(Gadget, builder =>
            builder
              .owns(Part)
              .reconcile(async (gadget, { client }) => {
                const { name } = gadget.metadata
                for (const part of [`${name}-x`, `${name}-y`])
                  await client.apply(
                    Part,
                    setControllerReference(gadget, { metadata: { name: part }, spec: {} }),
                  )
                const { items } = await client.list(Part)
                const seen = items.filter(({ metadata }) => metadata.labels?.[done] === 'yes').length
                if (gadget.status?.seen !== seen) await client.patchStatus(Gadget, gadget, { seen })
              })
              .finalize(finalizer, () => {}),
          )
          plugin.controller(Part, builder =>
            builder.reconcile(async (part, { client }) => {
              for (let n = 0; n < outside.reads; n++) await client.list(Gadget)
              if (part.metadata.labels?.[done] === 'yes' || part.metadata.deletionTimestamp !== undefined)
                return
              await client.patch(Part, part, { metadata: { labels: { [done]: 'yes' } } })
            }),
          )
        },
      }),
    outside: () => ({ reads: lifecycles++ % 4 }),
    objects: () => [{ metadata: { name: 'a' }, spec: { size: 1 } }],
    isConverged: ({ object }) => object.status?.seen === 2,
    isCleanedUp: async ({ client }) => (await client.list(Part)).items.length === 0,
  })
  for (const each of cases) test.concurrent(each.name, () => each.run())
})

describe('one that relies on owner references and garbage collection passes', () => {
  gadgets(
    builder =>
      builder.owns(Part).reconcile(async (gadget, { client }) => {
        const { name, deletionTimestamp } = gadget.metadata
        if (deletionTimestamp !== undefined) return
        const spec = { size: gadget.spec.size }
        for (const part of ['part', 'more', 'last'])
          await client.apply(
            Part,
            setControllerReference(gadget, { metadata: { name: `${name}-${part}` }, spec }),
          )
        await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
      }),
    {
      isConverged: ({ object }) => object.status?.seen === object.spec.size,
      // The collector deletes the parts at a time of its own.
      isCleanedUp: () => true,
      outages: {},
    },
  ).register(test.concurrent)
})

test('objects that `prepare` creates are there before the first run', async () => {
  const failures: unknown[] = []
  const reading: Build = builder =>
    builder.reconcile(async (gadget, { client }) => {
      await client.get(Part, 'base').catch(error => {
        failures.push(error)
        throw error
      })
      await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
    })
  const { cases } = gadgets(reading, {
    prepare: async ({ client }) => void (await client.create(Part, { metadata: { name: 'base' }, spec: {} })),
    isConverged: ({ object }) => object.status?.seen === object.spec.size,
    isCleanedUp: () => true,
    outages: {},
  })
  await cases[0]?.run()
  expect(failures).toEqual([])
})

/** Stores a serial, a time and a key in a part. */
const certifying: Build = builder =>
  builder
    .reconcile(async (gadget, { client, clock, random }) => {
      const name = `${gadget.metadata.name}-part`
      if ((await client.getIfExists(Part, name)) === undefined) {
        const annotations = {
          'demo.example.com/issued': new Date(clock.now()).toISOString(),
          'demo.example.com/key': randomName(),
        }
        const spec = { of: random('serial').toString('hex') }
        await client.create(Part, { metadata: { name, annotations }, spec })
      }
      await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
    })
    .finalize(finalizer, (gadget, { client }) => removePart(client, gadget))

describe('one that draws serials and keys', () => {
  const options: Partial<ReconcilerUnderTest<GadgetObject, Cloud>> = {
    isConverged: ({ object }) => object.status?.seen === object.spec.size,
    outages: {},
  }

  test('passes if `normalize` replaces the keys', async () => {
    const normalize = (value: unknown, path: readonly string[]) =>
      path.at(-1) === 'demo.example.com/key' ? '<key>' : value
    for (const each of gadgets(certifying, { ...options, normalize }).cases.slice(0, 4)) await each.run()
  })

  test('fails for its keys without `normalize`, but not for serials and times', async () => {
    const found = gadgets(certifying, options).cases.find(({ name }) => name.includes('after a crash'))
    await expect(found?.run()).rejects.toThrow(
      /it left a different state: a part\.annotations\.demo\.example\.com\/key is/,
    )
  })
})

describe('one whose plugin has settings', () => {
  const given: unknown[] = []
  const configured = (settings?: ReconcilerUnderTest<GadgetObject, { readonly key: string }>['settings']) =>
    reconcilerConformance({
      model: Gadget,
      plugin: () =>
        definePlugin({
          name: 'gadgets',
          models: [Gadget],
          settings: {
            type: 'object',
            required: ['key'],
            properties: { key: { type: 'string' }, times: { type: 'integer', default: 3 } },
          },
          setup(plugin) {
            given.push(plugin.settings)
            plugin.controller(Gadget, c =>
              c.reconcile(async (gadget, { client }) => {
                await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
              }),
            )
          },
        }),
      ...(settings && { settings }),
      outside: () => ({ key: 'b' }),
      objects: () => [{ metadata: { name: 'a' }, spec: { size: 1 } }],
      isConverged: ({ object }) => object.status?.seen === object.spec.size,
      isCleanedUp: () => true,
    }).cases[0]

  test('gets those of the options with their defaults', async () => {
    await configured({ key: 'a' })?.run()
    expect(given[0]).toEqual({ key: 'a', times: 3 })
    await configured(({ key }) => ({ key }))?.run()
    expect(given.at(-1)).toEqual({ key: 'b', times: 3 })
  })

  test('fails without one that is required', async () => {
    await expect(configured()?.run()).rejects.toThrow(/its settings are invalid: key/)
  })
})

test('an outage of something that the reconciler does not use is no fault of it', async () => {
  const { cases } = gadgets(
    builder =>
      builder.reconcile(async (gadget, { client }) => {
        await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
      }),
    {
      isConverged: ({ object }) => object.status?.seen === object.spec.size,
      isCleanedUp: () => true,
    },
  )
  await cases.find(({ name }) => name.includes('outage'))?.run()
})

test('a lifecycle that takes too long is no verdict, and reports what it was waiting for', async () => {
  const wait = 'waiting until the object is converged'
  let report = ''
  // A slow machine needs a longer deadline to get to this wait.
  for (let deadlineMs = 500; deadlineMs < 200_000 && !report.includes(wait); deadlineMs *= 2) {
    const { cases } = gadgets(careful, { isConverged: () => new Promise(() => {}), deadlineMs })
    report = await rejectionOf(cases[1]?.run())
    expect(report).toContain(`OverdueError: a lifecycle did not end within ${deadlineMs} ms`)
  }
  expect(report).toContain(wait)
})

async function rejectionOf(work: Promise<void> | undefined): Promise<string> {
  return String(await work?.then(() => 'it has passed', String))
}

test('one that requeues all the time but writes only changes passes', async () => {
  const { cases } = gadgets((builder, cloud) =>
    builder
      .reconcile(async (gadget, { client }) => {
        cloud.put(gadget.metadata.uid, gadget.spec.size)
        if (gadget.status?.seen !== gadget.spec.size)
          await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
        return { requeueAfterMs: 20 }
      })
      .finalize(finalizer, gadget => cloud.remove(gadget.metadata.uid)),
  )
  for (const each of cases.slice(0, 4)) await each.run()
})

/** For reconcilers that manage their own finalizers. */
async function byHand(
  gadget: GadgetObject,
  { client }: ReconcileContext,
  cloud: Cloud,
  finalizers: { add(): Promise<unknown>; remove(): Promise<unknown> },
): Promise<void> {
  const { uid, deletionTimestamp, finalizers: present = [] } = gadget.metadata
  if (deletionTimestamp !== undefined) {
    if (!present.includes(finalizer)) return
    cloud.remove(uid)
    await finalizers.remove()
    return
  }
  if (!present.includes(finalizer)) await finalizers.add()
  cloud.put(uid, gadget.spec.size)
  await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
}

/** A random name, stored in `status.phase`. */
const randomName = () => `machine-${Math.random().toString(36).slice(2)}`

interface Fault {
  readonly fault: string
  /** The case that must detect it. */
  readonly caughtBy: RegExp
  /** The first line of the report. */
  readonly sentence: string
  /** The details of the report. */
  readonly saying: RegExp
  readonly build?: Build
  readonly more?: Partial<ReconcilerUnderTest<GadgetObject, Cloud>>
}

const named: Fault['more'] = {
  isConverged: ({ object }) => object.status?.phase !== undefined,
  isCleanedUp: async ({ client, outside }) =>
    outside.machines.size === 0 && (await client.list(Part)).items.length === 0,
}

/** Creates a part with a random name and then stores the name. */
const forgetful: Build = builder =>
  builder
    .reconcile(async (gadget, { client }) => {
      if (gadget.status?.phase !== undefined) return
      const part = await client.create(Part, { metadata: { generateName: 'part-' }, spec: {} })
      await client.patchStatus(Gadget, gadget, { phase: part.metadata.name })
    })
    .finalize(finalizer, async ({ status }, { client }) => {
      if (status?.phase === undefined) return
      await client.delete(Part, status.phase).catch(error => {
        if (!isApiError(error, 'NotFound')) throw error
      })
    })

const actsFirst: Build = (builder, cloud) =>
  builder.reconcile((gadget, context) => {
    if (gadget.metadata.deletionTimestamp === undefined) cloud.put(gadget.metadata.uid, gadget.spec.size)
    return byHand(gadget, context, cloud, {
      add: () => context.client.patch(Gadget, gadget, { metadata: { finalizers: [finalizer] } }),
      remove: () => context.client.patch(Gadget, gadget, { metadata: { finalizers: [] } }),
    })
  })

const faults: readonly Fault[] = [
  {
    fault: 'removes its finalizer although its clean-up threw',
    sentence:
      'after a deletion during the outage "the cloud is down", it removed its finalizer before the clean-up was done',
    caughtBy: /keeps its finalizer while clean-up fails/,
    saying: /during the outage "the cloud is down"[\s\S]*its finalizer was removed too early/,
    build: (builder, cloud) =>
      builder
        .reconcile(async (gadget, { client }) => {
          cloud.put(gadget.metadata.uid, gadget.spec.size)
          await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
        })
        .finalize(finalizer, ({ metadata }) => {
          try {
            cloud.remove(metadata.uid)
          } catch {}
        }),
  },
  {
    fault: 'does not await a write',
    sentence: 'without any disturbance, it left calls of the client behind',
    caughtBy: /converges from a new object/,
    saying: /reconcile has returned before its calls of the client: await them/,
    more: { isConverged: ({ object }) => object.status?.seen === object.spec.size, isCleanedUp: () => true },
    build: builder =>
      builder.reconcile((gadget, { client }) => {
        // Unhandled rejections would fail the run of the tests.
        client.patchStatus(Gadget, gadget, { seen: gadget.spec.size }).catch(() => {})
      }),
  },
  {
    fault: 'has side effects before its finalizer is stored',
    sentence:
      'after a crash before writing gadget a, and a deletion while it was down, it left something behind that it had made for the removed object',
    caughtBy: /deleted while it is down/,
    saying: /it dies before writing gadget a \(PATCH [\s\S]*it is not cleaned up/,
    build: actsFirst,
  },
  {
    fault: 'has side effects before its finalizer is stored',
    sentence:
      'after the object was deleted before writing gadget a, it left something behind that it had made for the removed object',
    caughtBy: /deleted before or after any of its calls/,
    saying: /deleted before writing gadget a \(PATCH [\s\S]*it is not cleaned up/,
    build: actsFirst,
  },
  {
    fault: 'makes the parts of a deleting object again',
    sentence: 'after the object and its dependents were deleted, it went on creating a part',
    caughtBy: /makes no dependents for an object that is being deleted/,
    saying: /parts\/a-part was made for an object that is being deleted/,
    more: { isConverged: ({ object }) => object.status?.seen === object.spec.size, isCleanedUp: () => true },
    build: builder =>
      builder.owns(Part).reconcile(async (gadget, { client }) => {
        const part = { metadata: { name: `${gadget.metadata.name}-part` }, spec: { size: 1 } }
        if ((await client.getIfExists(Part, part.metadata.name)) === undefined)
          await client.create(Part, setControllerReference(gadget, part))
        await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
      }),
  },
  {
    fault: 'is triggered by its own status',
    sentence: 'after its work was done, it kept writing the status of gadget a',
    caughtBy: /writes nothing once its work is done/,
    saying: /it keeps writing: \d+ writes since the work was done, repeatedly PATCH \S+\/status/,
    build: (builder, cloud) =>
      builder
        .filterUpdates(anyChange)
        .reconcile(async (gadget, { client }) => {
          cloud.put(gadget.metadata.uid, gadget.spec.size)
          await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size, phase: randomName() })
        })
        .finalize(finalizer, gadget => cloud.remove(gadget.metadata.uid)),
  },
  {
    fault: 'rewrites its status at every start',
    sentence: 'after its work was done, it wrote gadgets/a again although nothing had changed',
    caughtBy: /writes nothing once its work is done/,
    saying: /it writes although its work is done: since another process has read it, gadgets\/a/,
    build: (builder, cloud) =>
      builder
        .reconcile(async (gadget, { client }) => {
          cloud.put(gadget.metadata.uid, gadget.spec.size)
          await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size, phase: randomName() })
        })
        .finalize(finalizer, gadget => cloud.remove(gadget.metadata.uid)),
  },
  {
    fault: 'overwrites the list of finalizers to add its own',
    sentence:
      'after another writer changed the object before writing gadget a, it overwrote the finalizer of the other writer',
    caughtBy: /does not overwrite changes that others make/,
    saying:
      /before writing gadget a \(PATCH [\s\S]*the finalizer of the other writer is lost; left is \["demo/,
    build: (builder, cloud) =>
      builder.reconcile((gadget, context) =>
        byHand(gadget, context, cloud, {
          add: () => context.client.patch(Gadget, gadget, { metadata: { finalizers: [finalizer] } }),
          remove: () => context.client.patch(Gadget, gadget, { metadata: { finalizers: [] } }),
        }),
      ),
  },
  {
    fault: 'removes all finalizers after its clean-up',
    sentence:
      'after another writer changed the object before writing gadget a, it overwrote the finalizer of the other writer',
    caughtBy: /does not overwrite changes that others make/,
    saying: /the finalizer of the other writer is lost; left is \[\]/,
    build: (builder, cloud) =>
      builder.reconcile((gadget, context) =>
        byHand(gadget, context, cloud, {
          add: () =>
            context.client.patch(
              Gadget,
              gadget,
              {
                metadata: { finalizers: [...(gadget.metadata.finalizers ?? []), finalizer] },
              },
              { version: gadget.metadata.version },
            ),
          remove: () => context.client.patch(Gadget, gadget, { metadata: { finalizers: [] } }),
        }),
      ),
  },
  {
    fault: 'creates an object with a random name and stores the name afterwards',
    sentence:
      'after a crash between creating a part and writing the status of gadget a, it created a second part',
    caughtBy: /after a crash before or after any of its calls/,
    saying:
      /it dies after creating a part \(POST [\s\S]*objects\.parts\.demo\.example\.com has 2 items instead of 1/,
    build: forgetful,
    more: named,
  },
  {
    fault: 'creates another object after a lost response',
    sentence: 'after creating a part succeeded, but the response was lost, it created a second part',
    caughtBy: /a lost response to a write/,
    saying: /creating a part \(POST \S+\) fails with 504, and it was executed[\s\S]*2 items instead of 1/,
    build: forgetful,
    more: named,
  },
  {
    fault: 'creates an object with a random name at each of many restarts',
    sentence: 'after many crashes, it created N parts instead of N',
    caughtBy: /despite many crashes/,
    saying: /has \d+ items instead of 3/,
    build: forgetful,
    more: named,
  },
  {
    fault: 'keeps its clean-up in memory',
    sentence:
      'after a crash between adding its finalizer and writing the status of gadget a, and a deletion while it was down, it left something behind that it had made for the removed object',
    caughtBy: /deleted while it is down/,
    saying: /it is not cleaned up/,
    build: (builder, cloud) => {
      const known = new Set<string>()
      builder
        .reconcile(async (gadget, { client }) => {
          known.add(gadget.metadata.uid)
          cloud.put(gadget.metadata.uid, gadget.spec.size)
          await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
        })
        .finalize(finalizer, ({ metadata }) => {
          if (known.has(metadata.uid)) cloud.remove(metadata.uid)
        })
    },
  },
  {
    fault: 'swallows errors',
    sentence:
      'after writing the status of gadget a failed with 429 TooManyRequests, it never completed its work, although its runs succeed',
    caughtBy: /retries temporary errors/,
    saying: /fails with 429 TooManyRequests[\s\S]*waiting until the object is converged/,
    build: (builder, cloud) =>
      builder
        .reconcile(async (gadget, { client }) => {
          cloud.put(gadget.metadata.uid, gadget.spec.size)
          await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size }).catch(() => {})
        })
        .finalize(finalizer, gadget => cloud.remove(gadget.metadata.uid)),
  },
  {
    fault: 'repeats a write without its version after a conflict',
    sentence:
      'after another writer changed the object before writing gadget a, it overwrote the label of the other writer',
    caughtBy: /does not overwrite changes that others make/,
    saying: />> 2 PUT gadgets\/a: 409/,
    build: (builder, cloud) =>
      builder
        .reconcile(async (gadget, { client }) => {
          cloud.put(gadget.metadata.uid, gadget.spec.size)
          const { name, version, labels = {}, annotations = {}, finalizers = [] } = gadget.metadata
          const seen = { 'demo.example.com/seen': `${gadget.spec.size}` }
          const annotated = { ...annotations, ...seen }
          const metadata = { name, labels, annotations: annotated, finalizers: [...finalizers] }
          await client
            .update(Gadget, { metadata: { ...metadata, version }, spec: gadget.spec })
            .catch(() => client.update(Gadget, { metadata, spec: gadget.spec }))
        })
        .finalize(finalizer, gadget => cloud.remove(gadget.metadata.uid)),
    more: {
      isConverged: ({ object }) =>
        object.metadata.annotations?.['demo.example.com/seen'] === `${object.spec.size}`,
    },
  },
  {
    fault: 'needs to see every state',
    sentence:
      'after several changes of which it saw only the last, it left N items outside of the API instead of N',
    caughtBy: /sees only the last of several changes/,
    saying: /world has \d items instead of|world\[\d\] is/,
    build: (builder, cloud) =>
      builder
        .reconcile(async (gadget, { client }) => {
          const { uid, generation } = gadget.metadata
          cloud.put(uid, gadget.spec.size)
          cloud.put(`${uid}/${generation}`, gadget.spec.size)
          await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
        })
        .finalize(finalizer, ({ metadata }) => {
          for (const id of [...cloud.machines.keys()]) if (id.startsWith(metadata.uid)) cloud.remove(id)
        }),
  },
  {
    fault: 'acts permanently on a stale state',
    sentence: 'with a cache that lags behind, it made a second item outside of the API',
    caughtBy: /its cache lags behind/,
    saying: /outside/,
    // It counts the states that it sees, and counts delayed ones again.
    build: (builder, cloud) =>
      builder
        .reconcile(async (gadget, { client }) => {
          const { uid } = gadget.metadata
          const live = await client.get(Gadget, gadget.metadata.name)
          if (live.metadata.version !== gadget.metadata.version) cloud.put(`${uid}/late`, 1)
          cloud.put(uid, gadget.spec.size)
          await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
        })
        .finalize(finalizer, ({ metadata }) => {
          cloud.remove(metadata.uid)
          cloud.remove(`${metadata.uid}/late`)
        }),
  },
  {
    fault: 'takes a recreated object for the old one',
    sentence: 'after the object was recreated, it never completed its work, although its runs succeed',
    caughtBy: /treats a recreated object/,
    saying: /waiting until the object is converged/,
    build: (builder, cloud) => {
      const ids = new Map<string, string>()
      const idOf = ({ metadata }: GadgetObject) => ids.get(metadata.name) ?? metadata.uid
      builder
        .reconcile(async (gadget, { client }) => {
          ids.set(gadget.metadata.name, idOf(gadget))
          cloud.put(idOf(gadget), gadget.spec.size)
          await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
        })
        .finalize(finalizer, gadget => cloud.remove(idOf(gadget)))
    },
  },
  {
    fault: 'never settles',
    sentence: 'without any disturbance, it never completed its work: a run never settles',
    caughtBy: /converges from a new object/,
    saying: /a run has not settled and is not waiting for the API/,
    build: builder => builder.reconcile(() => new Promise(() => {})).finalize(finalizer, () => {}),
  },
  {
    fault: 'continues although it is aborted',
    sentence:
      'after it was stopped while writing the status of gadget a, it continued although its signal was aborted: a run never settles',
    caughtBy: /stops when aborted/,
    saying: /waiting until no run continues after its signal has been aborted/,
    build: (builder, cloud) =>
      builder
        .reconcile(async (gadget, { client }) => {
          cloud.put(gadget.metadata.uid, gadget.spec.size)
          for (;;) {
            try {
              await client.patchStatus(Gadget, gadget, { seen: gadget.spec.size })
              return
            } catch {
              await new Promise(resolve => setTimeout(resolve, 50).unref())
            }
          }
        })
        .finalize(finalizer, gadget => cloud.remove(gadget.metadata.uid)),
  },
]

describe('a faulty reconciler is detected by the case for its fault:', () => {
  for (const { fault, build = careful, more, caughtBy, sentence, saying } of faults) {
    test.concurrent(`one that ${fault}, when it should be that "${caughtBy.source}"`, async () => {
      const { cases } = gadgets(build, more)
      const found = cases.find(({ name }) => caughtBy.test(name))
      const error = await found?.run().catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(ConformanceError)
      const { message } = error instanceof Error ? error : new Error('the case passes')
      expect(message.split('\n')[0]?.replace(/(created|left|of) \d+/g, '$1 N')).toBe(sentence)
      expect(message).toMatch(saying)
    })
  }
})

test('the type of the objects is inferred from the model only', () => {
  reconcilerConformance({
    model: Gadget,
    outside: () => new Cloud(),
    controller: () => {},
    objects: () => [{ metadata: { name: 'a' }, spec: { size: 1 } }],
    changes: () => [{ spec: { size: 2 } }],
    isConverged: ({ object, outside }) => {
      expectTypeOf(object).toEqualTypeOf<GadgetObject>()
      expectTypeOf(outside).toEqualTypeOf<Cloud>()
      return true
    },
    isCleanedUp: ({ object }) => object.spec.size > 0,
  })
})

test('an enum in the objects needs no assertion', () => {
  const Mode = defineModel({
    group: 'demo.example.com',
    version: 'v1',
    kind: 'Mode',
    singular: 'mode',
    plural: 'modes',
    schema: { spec: { type: 'object', properties: { mode: { type: 'string', enum: ['on', 'off'] } } } },
  })
  const subject = {
    model: Mode,
    outside: () => undefined,
    controller: () => {},
    isConverged: () => true,
    isCleanedUp: () => true,
  }
  reconcilerConformance({
    ...subject,
    objects: () => [{ metadata: { name: 'a' }, spec: { mode: 'on' } }],
    changes: () => [{ spec: { mode: 'off' } }],
  })
  // @ts-expect-error: no value of the enum.
  reconcilerConformance({ ...subject, objects: () => [{ metadata: { name: 'a' }, spec: { mode: 'up' } }] })
})
