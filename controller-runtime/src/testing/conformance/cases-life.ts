import type { ApiObject } from '../../api/object.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { ConformanceError, failed } from './conformance-error.ts'
import { type Lives, runVariants } from './lives.ts'
import { annotate } from './others.ts'
import { conformanceDefaults } from './reconciler-under-test.ts'
import { Stage } from './stage.ts'

/** Between two looks at whether something is written, in real ms. */
const lookMs = 5

/** What a life without disturbances must be. */
export function lifeCases<T extends ApiObject, Outside>(lives: Lives<T, Outside>): ConformanceCase[] {
  return [
    {
      name: 'it converges from a fresh object, and leaves nothing behind when the object is deleted',
      async run() {
        try {
          await lives.one()
        } catch (error) {
          throw failed(this.name, undefined, error)
        }
      },
    },
    {
      name: 'it comes to rest: it writes nothing once its work is done, however often it looks again',
      run() {
        return runVariants(this.name, [{ when: 'nobody disturbs it', run: () => comeToRest(lives) }])
      },
    },
    {
      name: 'it takes an object for a new one when an earlier one of the same name has gone',
      run() {
        return runVariants(this.name, [
          {
            when: 'the object is deleted and, as soon as it has gone, created again',
            async run() {
              const { converged, gone } = await lives.one()
              await using stage = await Stage.open(lives.subject)
              await stage.start()
              for (let round = 0; round < 2; round++) {
                await stage.create()
                await stage.converged()
                await stage.expectWorld(converged)
                await stage.deleteAll()
                const { uid, name } = stage.object.metadata
                await stage.until('the deleted object is gone', async () => {
                  const live = await stage.client.getIfExists(lives.subject.model, name)
                  return live?.metadata.uid !== uid
                })
              }
              await stage.gone()
              await stage.expectWorld(gone)
            },
          },
          {
            when: 'the object is created again under its name while it is down',
            async run() {
              const { converged, gone } = await lives.one()
              await using stage = await Stage.open(lives.subject)
              await stage.create()
              await stage.start()
              await stage.converged()
              const { finalizers = [] } = (await stage.look()).metadata
              // Without a finalizer nothing keeps the object from going while it is down, too.
              if (finalizers.length === 0) stage.kill()
              await stage.deleteAll()
              if (finalizers.length > 0) await stage.gone()
              stage.kill()
              await stage.create()
              await stage.start()
              await stage.converged()
              await stage.expectWorld(converged)
              await stage.deleteAll()
              await stage.gone()
              await stage.expectWorld(gone)
            },
          },
        ])
      },
    },
  ]
}

async function comeToRest<T extends ApiObject, Outside>(lives: Lives<T, Outside>): Promise<void> {
  const { model } = lives.subject
  await using stage = await Stage.open(lives.subject)
  await stage.create()
  await stage.start()
  await stage.until('the object is converged', () => stage.isConverged())
  await restFrom(stage, 'the work is done')
  const atRest = await stage.versions()
  const world = await stage.world()

  stage.kill()
  await stage.start()
  await lookedAgain(stage, model.plural)
  await restFrom(stage, 'another process has looked at the object')
  expectSame(atRest, await stage.versions(), 'another process has looked at it')
  await stage.expectWorld(world)

  const { name } = stage.object.metadata
  const runs = stage.process.succeeded(model.plural)
  await annotate(stage, 'note', 'x')
  const { version } = (await stage.look()).metadata
  // A reconciler that does not listen to annotations is right, too.
  await stage.pass(conformanceDefaults.restMs)
  if (stage.process.succeeded(model.plural) === runs) return
  expectSame(
    new Map([...atRest, [`${model.plural}/${name}`, version]]),
    await stage.versions(),
    'somebody has annotated it',
  )
}

async function lookedAgain<T extends ApiObject, Outside>(stage: Stage<T, Outside>, plural: string) {
  await stage.until('it looks at the object after its start', () => stage.process.succeeded(plural) > 0)
}

/** Waits until no object changes any more. @throws ConformanceError when they go on changing. */
async function restFrom<T extends ApiObject, Outside>(
  stage: Stage<T, Outside>,
  since: string,
): Promise<void> {
  const { calls } = stage.process.transport
  const before = calls.length
  let seen = await stage.versions()
  let changes = 0
  // Looks rather than time: while this process is held up, so is the reconciler in it.
  for (let quietMs = 0; quietMs < conformanceDefaults.restMs; quietMs += lookMs) {
    await stage.pass(lookMs)
    const versions = await stage.versions()
    if (differing(seen, versions) === undefined) continue
    seen = versions
    quietMs = 0
    if (++changes < conformanceDefaults.loopWrites) continue
    const writes = calls.slice(before).filter(({ method }) => method !== 'GET')
    const kinds = [...new Set(writes.map(({ method, path }) => `${method} ${path}`))]
    throw new ConformanceError(
      `it does not come to rest: ${writes.length} writes since ${since}, again and again ${kinds.join(', ')}`,
    )
  }
}

function expectSame(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
  since: string,
): void {
  const name = differing(before, after)
  if (name === undefined) return
  const [was = 'absent', is = 'absent'] = [before.get(name), after.get(name)]
  throw new ConformanceError(
    `it writes again what is done: since ${since}, ${name} has gone from version ${was} to ${is}`,
  )
}

/** An object that is not the same in both. */
function differing(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): string | undefined {
  return [...a.keys(), ...b.keys()].find(name => a.get(name) !== b.get(name))
}
