import { readFileSync } from 'node:fs'
import { defineModel, isApiError, isRecord } from '@setpoint/controller-runtime/api'
import { expect, test } from 'vitest'
import { openRooms } from '../../../../test/support/rooms.ts'
import { defaultWriteOptions } from '../index.ts'

/** What Kubernetes made of the same writes. See `test/fixtures/server-side-apply/README.md`. */
interface Step {
  readonly write: 'apply' | 'update'
  readonly manager: string
  readonly force?: boolean
  readonly subresource?: 'status'
  readonly object: { readonly metadata?: object; readonly spec?: object; readonly status?: object }
  readonly result: {
    readonly message?: string
    readonly causes?: object[]
    readonly object?: object
    readonly managedFields?: object[]
  }
}

const file = new URL('../../../../test/fixtures/server-side-apply/scenarios.jsonl', import.meta.url)
const [header = '', ...lines] = readFileSync(file, 'utf8').trim().split('\n')
const { schema } = JSON.parse(header)
const { spec, status } = schema.Thing.properties
const scenarios: { name: string; steps: Step[] }[] = lines.map(line => JSON.parse(line))

const model = defineModel({
  group: 'test.example.com',
  version: 'v1',
  kind: 'Thing',
  singular: 'thing',
  plural: 'things',
  schema: { spec, status },
  subresources: { status: true },
})

test('every scenario has the outcome that Kubernetes recorded', async () => {
  await using rooms = await openRooms(model)
  const { registry, served } = rooms
  expect(scenarios.length).toBeGreaterThan(50)
  for (const { name: scenario, steps } of scenarios) {
    const name = 'a'
    let exists = false
    for (const [index, { write, manager, force = false, subresource, object, result }] of steps.entries()) {
      const options = { ...defaultWriteOptions, manager: () => manager }
      const scope = subresource ?? 'object'
      const metadata = { ...object.metadata, name }
      const document = { spec: {}, ...object, apiVersion: 'test.example.com/v1', kind: 'Thing', metadata }
      const outcome = await outcomeOf(() => {
        if (write === 'apply') return registry.apply(served, name, { document, force }, scope, options)
        if (!exists) return registry.create(served, document, options)
        return registry.replace(served, name, document, scope, options)
      })
      exists ||= result.message === undefined
      const what = `${scenario}, step ${index + 1}`
      expect({ what, ...outcome }).toEqual({ what, ...comparable(result) })
    }
    if (!exists) continue
    const patch = { type: 'merge', document: { metadata: { finalizers: null } } } as const
    await registry.patch(served, name, patch, 'object', defaultWriteOptions)
    await registry.delete(served, name, {}, defaultWriteOptions)
  }
})

async function outcomeOf(write: () => Promise<{ bytes: Buffer }>): Promise<Outcome> {
  try {
    const { metadata, ...object } = JSON.parse((await write()).bytes.toString())
    const { name, labels, annotations, finalizers, ownerReferences, managedFields } = metadata
    const shown = { name, labels, annotations, finalizers, ownerReferences }
    return comparable({ object: { ...object, metadata: shown }, managedFields })
  } catch (error) {
    if (!isApiError(error)) throw error
    return comparable({ message: error.message, causes: error.details?.causes ?? [] })
  }
}

interface Outcome {
  readonly message?: readonly string[]
  readonly causes?: readonly string[]
  readonly object?: unknown
  readonly managedFields?: readonly string[]
}

/** The outcome without times. Lists without a defined order are sorted. */
function comparable({ message, causes, object, managedFields }: Step['result']): Outcome {
  if (message !== undefined) return { message: message.split('\n').sort(), causes: texts(causes) }
  const { metadata, ...content } = JSON.parse(JSON.stringify({ spec: {}, ...object }))
  const lastApplied = metadata.annotations?.['kubectl.kubernetes.io/last-applied-configuration']
  if (lastApplied)
    metadata.annotations['kubectl.kubernetes.io/last-applied-configuration'] = JSON.parse(lastApplied)
  return { object: { ...content, metadata }, managedFields: texts(managedFields) }
}

function texts(list: readonly object[] = []): string[] {
  return list.map(each => canonical({ ...each, time: undefined })).sort()
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    isRecord(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  )
}
