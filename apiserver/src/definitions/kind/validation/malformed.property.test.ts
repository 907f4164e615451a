import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Fields, fieldsOf, isFields } from '../../../../../test/support/json.ts'
import { mutatedDefinitions, richDefinition } from '../../../../../test/support/mutated-definitions.ts'
import { runsOf } from '../../../../../test/support/runs.ts'
import {
  changed,
  refusals,
  refusalsOfChange,
  stored,
  type TestDefinition,
} from '../../../testing/test-definition.ts'

const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value ?? []))

/** Metadata is checked before, as that of all objects. */
function withMetadata(sent: Fields): TestDefinition {
  const { annotations } = fieldsOf(sent.metadata ?? {})
  const indexes = isFields(annotations) ? annotations['setpoint.dev/indexes'] : undefined
  const metadata = {
    name: 'riches.mutated.example.com',
    annotations: { 'setpoint.dev/indexes': textOf(indexes) },
  }
  return Object({ ...sent, metadata })
}

test('a definition with much in it is accepted', async () => {
  expect(await refusals(withMetadata(richDefinition))).toEqual([])
})

const counts = { accepted: 0, refused: 0 }

test('a definition is accepted or refused, whatever is in it', async () => {
  await fc.assert(
    fc.asyncProperty(mutatedDefinitions, mutatedDefinitions, async (sent, other) => {
      const [definition, next] = [withMetadata(sent), withMetadata(other)]
      const causes = await refusals(definition)
      counts[causes.length === 0 ? 'accepted' : 'refused']++
      await refusalsOfChange(stored(definition), next)
    }),
    { numRuns: runsOf(900) },
  )
  expect(counts.accepted).toBeGreaterThan(runsOf(20))
  expect(counts.refused).toBeGreaterThan(runsOf(20))
})

test('a definition is completed once: what is stored is complete', async () => {
  await fc.assert(
    fc.property(mutatedDefinitions, sent => {
      const definition = stored(withMetadata(sent))
      expect(stored(Object(definition)).spec).toEqual(definition.spec)
      expect(changed(definition, Object(definition)).spec).toEqual(definition.spec)
    }),
    { numRuns: runsOf(600) },
  )
})
