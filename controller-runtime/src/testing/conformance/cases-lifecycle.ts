import type { ApiObject } from '../../api/object.ts'
import { objectKey } from '../../api/object-key.ts'
import { actionOf } from './call-action.ts'
import { Finding } from './finding.ts'
import type { Lifecycles } from './lifecycles.ts'
import { annotate } from './other-writers.ts'
import { conformanceDefaults } from './reconciler-under-test.ts'
import type { Scenario } from './scenario.ts'
import type { Guarantee } from './variants.ts'

/** Cases without disturbances. */
export function lifecycleCases<T extends ApiObject, Outside>(
  lifecycles: Lifecycles<T, Outside>,
): Guarantee<T, Outside>[] {
  return [
    {
      name: 'it converges from a new object, and leaves nothing behind when the object is deleted',
      async variants() {
        await lifecycles.baseline('one')
        return []
      },
    },
    {
      name: 'it writes nothing once its work is done, however often it runs',
      variants: async () => [
        { after: 'after its work was done', when: undefined, baseline: 'none', run: comeToRest },
      ],
    },
    {
      name: 'it treats a recreated object of the same name as a new one',
      variants: async () => [
        {
          after: 'after the object was recreated',
          when: 'the object is deleted and, as soon as it is removed, recreated',
          baseline: 'one',
          async run(scenario, { converged, gone }) {
            await scenario.start()
            for (let round = 0; round < 2; round++) {
              await scenario.create()
              await scenario.converged(converged)
              await scenario.deleteAll()
              const { metadata } = scenario.object
              const key = objectKey(metadata)
              await scenario.until('the deleted object is removed', async () => {
                const live = await scenario.client.getIfExists(lifecycles.subject.model, key)
                return live?.metadata.uid !== metadata.uid
              })
            }
            await scenario.gone(gone)
          },
        },
        {
          after: 'after the object was recreated while it was down',
          when: 'the object is recreated while it is down',
          baseline: 'one',
          async run(scenario, { converged, gone }) {
            await scenario.create()
            await scenario.start()
            await scenario.converged()
            const { finalizers = [] } = (await scenario.look()).metadata
            // Without a finalizer nothing delays the removal, so the process is killed first.
            if (finalizers.length === 0) scenario.kill()
            await scenario.deleteAll()
            if (finalizers.length > 0) await scenario.gone()
            scenario.kill()
            await scenario.create()
            await scenario.start()
            await scenario.converged(converged)
            await scenario.deleteAll()
            await scenario.gone(gone)
          },
        },
      ],
    },
  ]
}

async function comeToRest<T extends ApiObject, Outside>(scenario: Scenario<T, Outside>): Promise<void> {
  const { model } = scenario.subject
  await scenario.create()
  await scenario.start()
  await scenario.until('the object is converged', () => scenario.isConverged(), 'it never completed its work')
  await restFrom(scenario, 'the work was done')
  const atRest = await scenario.versions()
  const snapshot = await scenario.snapshot()

  scenario.kill()
  await scenario.start()
  await lookedAgain(scenario, model.plural)
  await restFrom(scenario, 'another process has read the object')
  expectSame(atRest, await scenario.versions(), 'another process has read it')
  await scenario.expectSnapshot(snapshot)

  const key = objectKey(scenario.object.metadata)
  const runs = scenario.process.succeeded(model.plural)
  await annotate(scenario, 'note', 'x')
  const { version } = (await scenario.look()).metadata
  // A reconciler may ignore annotations.
  await scenario.rest(conformanceDefaults.restMs)
  if (scenario.process.succeeded(model.plural) === runs) return
  expectSame(
    new Map([...atRest, [`${model.plural}/${key}`, version]]),
    await scenario.versions(),
    'another writer has annotated it',
  )
}

async function lookedAgain<T extends ApiObject, Outside>(scenario: Scenario<T, Outside>, plural: string) {
  await scenario.until(
    'it reconciles the object after its start',
    () => scenario.process.succeeded(plural) > 0,
  )
}

/** Waits until no object changes any more. @throws Finding if they keep changing. */
async function restFrom<T extends ApiObject, Outside>(
  scenario: Scenario<T, Outside>,
  since: string,
): Promise<void> {
  const { calls } = scenario.process.transport
  const before = calls.length
  let seen = await scenario.versions()
  let changes = 0
  let restless = true
  while (restless) {
    restless = false
    await scenario.rest(conformanceDefaults.restMs, async () => {
      const versions = await scenario.versions()
      if (differing(seen, versions) === undefined) return true
      seen = versions
      changes++
      restless = true
      return false
    })
    if (changes < conformanceDefaults.loopWrites) continue
    const writes = calls.slice(before).filter(({ method }) => method !== 'GET')
    const kinds = [...new Set(writes.map(call => `${call.method} ${call.path}`))]
    const actions = [...new Set(writes.map(call => actionOf(call, scenario.models)))]
    throw new Finding(
      `it kept ${actions.join(' and ')}`,
      `it keeps writing: ${writes.length} writes since ${since}, repeatedly ${kinds.join(', ')}`,
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
  throw new Finding(
    `it wrote ${name} again although nothing had changed`,
    `it writes although its work is done: since ${since}, ${name} has changed from version ${was} to ${is}`,
  )
}

/** Returns the name of an object with different versions. */
function differing(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): string | undefined {
  return [...a.keys(), ...b.keys()].find(name => a.get(name) !== b.get(name))
}
