import { isRecord } from '@setpoint/controller-runtime/api'
import { recordOf, recordsOf } from '../../kubernetes/index.ts'
import { type BareObject, kubernetesFormat } from '../../model/index.ts'

/** Returns a warning for each format of texts that is not checked, as Kubernetes does, unless the stored definition has it. */
export function formatWarnings(object: BareObject, previous: BareObject | undefined): string[] {
  const known = previous === undefined ? new Set() : unknownFormats(previous)
  return [...unknownFormats(object)]
    .filter(format => !known.has(format))
    .map(format => `unrecognized format ${JSON.stringify(format)}`)
}

function unknownFormats({ spec }: BareObject): Set<string> {
  const found = new Set<string>()
  for (const { schema } of recordsOf(recordOf(spec).versions)) visit(recordOf(schema).openAPIV3Schema, found)
  return found
}

const parts = ['items', 'not', 'additionalProperties', 'additionalItems']
const lists = ['allOf', 'anyOf', 'oneOf', 'items']
const maps = ['properties', 'patternProperties', 'definitions', 'dependencies']

function visit(schema: unknown, found: Set<string>): void {
  if (!isRecord(schema)) return
  const { type, format } = schema
  if (
    type === 'string' &&
    typeof format === 'string' &&
    format !== '' &&
    kubernetesFormat(format) === undefined
  )
    found.add(format)
  for (const keyword of parts) visit(schema[keyword], found)
  for (const keyword of lists) for (const each of recordsOf(schema[keyword])) visit(each, found)
  for (const keyword of maps) for (const each of Object.values(recordOf(schema[keyword]))) visit(each, found)
}
