import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findGatewayTests } from '../scripts/clients.mjs'
import { findGoModule } from '../scripts/go-modules.mjs'
import { type Outcome, type Outcomes, play, type Request } from './fixtures/published-definitions/play.js'
import { projects } from './fixtures/published-definitions/projects.js'
import { ClientWorld, settings } from './support/client-world.ts'
import { need } from './support/tools.ts'

await need(async () => {
  for (const project of projects) await findGoModule(project)
  await findGatewayTests()
})

/** The outcomes of each stage, by the name of its definition or example. */
const recorded = readOutcomes()

/** How kube-apiserver begins, or words, the messages about a schema. Setpoint has words of its own. */
const wordsOfKubernetes = / in body |^Too long: |^supported values: |^Invalid value: /

describe.each(settings)('definitions that projects publish, on $title', setting => {
  let world: ClientWorld
  beforeAll(async () => {
    world = await ClientWorld.start(setting, ['empty-plugin'])
  })
  afterAll(() => world?.end())

  const send = ({ method, path, headers, body }: Request) =>
    world.api.request(method, path, body, { headers, type: '' })

  for (const { name, stages, ...source } of projects)
    it.each(stages)(
      `${name}: the $channel definitions and every example are accepted or refused as by kube-apiserver`,
      async stage => {
        const responses = new Map<string, string>()
        const outcomes = await play(
          send,
          await findGoModule(source),
          stage,
          () => Promise.resolve(),
          (example, text) => responses.set(example, text),
        )
        const expected = recorded.get(`${name} ${stage.channel}`) ?? {}
        expect(Object.keys(outcomes)).toEqual(Object.keys(expected))
        for (const [example, outcome] of Object.entries(expected))
          expect.soft(outcomes[example], `${example}: ${responses.get(example)}`).toEqual(outcome)
      },
    )

  // They need the definitions of the experimental channel, which are there by now. The store makes no difference.
  if (setting === settings[0])
    it("Gateway API's own tests find that each object is accepted or refused, and the messages of its rules", async () => {
      const { stdout } = await world.run(await findGatewayTests(), ['-test.v']).ended
      expect(stdout.match(/--- PASS/g)?.length).toBeGreaterThan(150)
      expect(stdout).not.toContain(';want error=')
      const missing = [...stdout.matchAll(/;missing strings within error=\["(.*)"\]/g)].map(
        ([, text]) => text,
      )
      expect(missing.filter(text => !wordsOfKubernetes.test(text ?? ''))).toEqual([])
    })
})

function readOutcomes(): ReadonlyMap<string, Outcomes> {
  const file = new URL('fixtures/published-definitions/outcomes.jsonl', import.meta.url)
  const [, ...lines] = readFileSync(file, 'utf8').trim().split('\n')
  const stages = new Map<string, Outcomes>()
  let stage: Outcomes = {}
  for (const line of lines) {
    const read: { project: string; channel: string } | (Outcome & { of: string }) = JSON.parse(line)
    if ('project' in read) {
      stage = {}
      stages.set(`${read.project} ${read.channel}`, stage)
    } else {
      const { of, ...outcome } = read
      stage[of] = outcome
    }
  }
  return stages
}
