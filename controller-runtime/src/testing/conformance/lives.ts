import type { ApiObject } from '../../api/object.ts'
import { ConformanceError, failed } from './conformance-error.ts'
import { annotate, type Edit } from './others.ts'
import type { Call, Disturb } from './process-transport.ts'
import { conformanceDefaults, type ReconcilerUnderTest } from './reconciler-under-test.ts'
import { Stage } from './stage.ts'
import type { World } from './world.ts'

/** What an object goes through: it is created and converges, and then it is deleted and goes. */
export type Phase = 'converging' | 'deleting'

/** A call that the reconciler makes in an undisturbed life. */
export interface CallPoint extends Pick<Call, 'number' | 'method' | 'path'> {
  readonly phase: Phase
}

/** A life in which nothing happened: what every disturbed one must come to as well. */
export interface UndisturbedLife {
  readonly calls: readonly CallPoint[]
  readonly converged: World
  readonly gone: World
}

/** Lives of a reconciler: those that nobody disturbs are lived once, and what is compared with them knows them. */
export class Lives<T extends ApiObject, Outside> {
  readonly subject: ReconcilerUnderTest<T, Outside>
  #one: Promise<UndisturbedLife> | undefined
  #all: Promise<UndisturbedLife> | undefined
  #edited: Promise<UndisturbedLife> | undefined

  constructor(subject: ReconcilerUnderTest<T, Outside>) {
    this.subject = subject
  }

  /** Of the first object. */
  one(): Promise<UndisturbedLife> {
    this.#one ??= this.#undisturbed(stage => stage.create())
    return this.#one
  }

  /** Of all objects together. */
  all(): Promise<UndisturbedLife> {
    this.#all ??= this.#undisturbed(stage => stage.create(true))
    return this.#all
  }

  /** Of the first object, with every edit made and followed before the next. */
  edited(): Promise<UndisturbedLife> {
    this.#edited ??= this.#undisturbed(async stage => {
      await stage.create()
      await stage.converged()
      for (const edit of this.edits(stage.outside)) {
        await edit(stage)
        await stage.converged()
      }
    })
    return this.#edited
  }

  /** Changes of what is desired, and of annotations, which concern the reconciler only in that they wake it. */
  edits(outside: Outside): readonly Edit<T, Outside>[] {
    const { model } = this.subject
    const changes = this.subject.changes?.(outside) ?? []
    return [
      stage => annotate(stage, 'edit', 'first'),
      ...changes.map(
        (patch): Edit<T, Outside> =>
          async ({ client, object }) => {
            await client.patch(model, object.metadata.name, patch)
          },
      ),
      stage => annotate(stage, 'edit', 'last'),
    ]
  }

  async #undisturbed(begin: (stage: Stage<T, Outside>) => Promise<void>): Promise<UndisturbedLife> {
    await using stage = await Stage.open(this.subject)
    try {
      return await this.#live(stage, begin)
    } catch (error) {
      const what = error instanceof Error ? error.message : String(error)
      throw new ConformanceError(`already in a life that nobody disturbs: ${what}`, { cause: error })
    }
  }

  async #live(
    stage: Stage<T, Outside>,
    begin: (stage: Stage<T, Outside>) => Promise<void>,
  ): Promise<UndisturbedLife> {
    await stage.start()
    await begin(stage)
    await stage.converged()
    const converged = await stage.world()
    const { calls } = stage.process.transport
    const converging = calls.map(call => ({ ...call, phase: 'converging' as const }))
    await stage.deleteAll()
    await stage.gone()
    const deleting = calls.slice(converging.length).map(call => ({ ...call, phase: 'deleting' as const }))
    return { calls: [...converging, ...deleting], converged, gone: await stage.world() }
  }

  /**
   * One life of the first object whose first process is disturbed; those that follow on its death are not. It must come
   * to the same as an undisturbed one.
   */
  async disturbed(makeDisturb: (stage: Stage<T, Outside>) => Disturb): Promise<void> {
    const expected = await this.one()
    await using stage = await Stage.open(this.subject)
    await stage.create()
    await stage.start({ disturb: makeDisturb(stage) })
    await stage.converged()
    await stage.expectWorld(expected.converged)
    await stage.deleteAll()
    await stage.gone()
    await stage.expectWorld(expected.gone)
  }
}

/** One way of disturbing a life. */
export interface Variant {
  /** Follows "when": "it dies before call 2 (PATCH ...)". */
  readonly when: string
  run(): Promise<void>
}

/** Runs all variants, some at once. @throws ConformanceError of the first of them that fails, in their order. */
export async function runVariants(guarantee: string, variants: readonly Variant[]): Promise<void> {
  const failures = new Map<number, unknown>()
  const rest = variants.entries()
  const worker = async () => {
    for (const [at, variant] of rest) {
      try {
        await variant.run()
      } catch (error) {
        failures.set(at, error)
      }
      if (failures.size > 0) return
    }
  }
  await Promise.all(Array.from({ length: conformanceDefaults.concurrency }, worker))
  const first = Math.min(...failures.keys())
  if (failures.size > 0) throw failed(guarantee, variants[first]?.when, failures.get(first))
}

/** A disturbance of the call of one number. */
export function atCall(number: number, disturb: Disturb): Disturb {
  return (call, carryOut, kill) => (call.number === number ? disturb(call, carryOut, kill) : carryOut())
}
