import { afterEach, describe, expect, expectTypeOf, test } from 'vitest'
import { type Harness, startHarness } from '../../../test/support/sdk/controller-harness.ts'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import type { Lister } from '../cache/informer.ts'
import type { NewObjectOf, ReplacementOf } from '../client/bodies.ts'
import type { Client } from '../client/client.ts'
import { mutableCopy } from '../client/draft.ts'
import { conditionsSchema, getCondition, setCondition } from '../conditions.ts'
import type { MapToNames } from '../controller/inputs.ts'
import type { UpdatePredicate } from '../controller/predicates.ts'
import type { Finalize, Reconcile } from '../controller/reconcile.ts'
import type { DeepMutable, DeepReadonly } from './deep-readonly.ts'
import { defineModel, type ObjectOf } from './model.ts'
import { setControllerReference } from './owners.ts'

/** The types are checked by the compiler (`tsc -p test`). */

const Shelf = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Shelf',
  singular: 'shelf',
  plural: 'shelves',
  schema: {
    spec: {
      type: 'object',
      required: ['books'],
      properties: {
        books: {
          type: 'array',
          items: { type: 'object', required: ['title'], properties: { title: { type: 'string' } } },
        },
      },
    },
    status: { type: 'object', properties: { conditions: conditionsSchema } },
  },
  subresources: { status: true },
})
type ShelfObject = ObjectOf<typeof Shelf>
type FrozenShelf = DeepReadonly<ShelfObject>

const harnesses: Harness[] = []
afterEach(async () => {
  for (const harness of harnesses.splice(0)) await harness.stop()
})

test('a type is read-only at any depth, and mutable again at any depth', () => {
  interface Value {
    a: { b: { c: string }[]; d?: 'x' | null }
    e: unknown
  }
  expectTypeOf<DeepReadonly<Value>>().toEqualTypeOf<{
    readonly a: { readonly b: readonly { readonly c: string }[]; readonly d?: 'x' | null }
    readonly e: unknown
  }>()
  expectTypeOf<DeepMutable<DeepReadonly<Value>>>().toEqualTypeOf<{
    a: { b: { c: string }[]; d?: 'x' | null }
    e: unknown
  }>()
})

describe('the object of a reconcile', () => {
  test('is read-only for the compiler, as it is frozen; its copy is neither', async () => {
    const errors: unknown[] = []
    const attempt = (change: () => void) => {
      try {
        change()
      } catch (error) {
        errors.push(error)
      }
    }
    const titles: string[] = []
    const harness = startHarness(Shelf, c =>
      c.reconcile(shelf => {
        // @ts-expect-error: a list is read-only
        attempt(() => shelf.spec.books.push({ title: 'b' }))
        attempt(() => {
          // @ts-expect-error: a field of an item is read-only
          for (const book of shelf.spec.books) book.title = 'b'
        })
        attempt(() => {
          // @ts-expect-error: metadata is read-only
          shelf.metadata.labels = {}
        })
        const copy = mutableCopy(shelf)
        expectTypeOf(copy.spec).toEqualTypeOf<ShelfObject['spec']>()
        copy.spec.books.push({ title: 'b' })
        titles.push(...copy.spec.books.map(({ title }) => title))
      }),
    )
    harnesses.push(harness)
    const spec = { books: [{ title: 'a' }] }
    await harness.client.create(Shelf, { metadata: { name: 'one' }, spec })
    await eventually(() => titles.length > 0)
    expect(errors).toEqual([expect.any(TypeError), expect.any(TypeError), expect.any(TypeError)])
    expect(titles).toEqual(['a', 'b'])
  })

  test('has the same type wherever a cached object is given to a plugin', () => {
    expectTypeOf<Parameters<Reconcile<ShelfObject>>[0]>().toEqualTypeOf<FrozenShelf>()
    expectTypeOf<Parameters<Finalize<ShelfObject>>[0]>().toEqualTypeOf<FrozenShelf>()
    expectTypeOf<Parameters<MapToNames<ShelfObject>>[0]>().toEqualTypeOf<FrozenShelf>()
    expectTypeOf<Parameters<UpdatePredicate<ShelfObject>>>().toEqualTypeOf<
      [before: FrozenShelf, after: FrozenShelf]
    >()
    expectTypeOf<ReturnType<Lister<ShelfObject>['get']>>().toEqualTypeOf<FrozenShelf | undefined>()
    expectTypeOf<ReturnType<Lister<ShelfObject>['list']>>().toEqualTypeOf<readonly FrozenShelf[]>()
  })

  test('can be sent, and can own other objects, without a copy', () => {
    expectTypeOf<FrozenShelf>().toExtend<ReplacementOf<ShelfObject>>()
    expectTypeOf<FrozenShelf>().toExtend<NewObjectOf<ShelfObject>>()
    const write = async (client: Client, shelf: FrozenShelf) => {
      await client.patch(Shelf, shelf, { spec: { books: shelf.spec.books } })
      await client.updateStatus(Shelf, shelf)
      const conditions = shelf.status?.conditions
      expectTypeOf(getCondition(conditions, 'Ready')?.status).toExtend<string | undefined>()
      const ready = { type: 'Ready', status: 'True' } as const
      await client.patchStatus(Shelf, shelf, { conditions: setCondition(conditions, ready) })
      await client.create(Shelf, setControllerReference(shelf, { metadata: { name: 'b' }, spec: shelf.spec }))
    }
    expect(write).toBeTypeOf('function')
  })

  test('without lists of its own can be given to a function that takes a mutable one', () => {
    type Plain = { spec: { title: string } } & Pick<ShelfObject, 'metadata' | 'apiVersion' | 'kind'>
    expectTypeOf<DeepReadonly<Plain>>().toExtend<Plain>()
  })
})
