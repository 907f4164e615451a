import { followPath } from '../../../model/index.ts'
import type { Findings } from '../../findings.ts'
import type { SelectableField } from './definition.ts'
import { SchemaFacts } from './schema-facts.ts'
import type { SchemaProps } from './schema-props.ts'

/** The bound of Kubernetes for one version. */
export const selectableFieldDefaults = Object.freeze({
  /** As in Kubernetes. */
  maxFields: 8,
})

const scalars: readonly unknown[] = ['string', 'boolean', 'integer']

/** Checks that selectable fields are declared scalars outside of the metadata, each once. */
export function checkSelectableFields(
  fields: readonly SelectableField[],
  schema: SchemaProps,
  place: string,
  found: Findings,
): void {
  const { unreadable } = new SchemaFacts(schema).of(schema)
  if (unreadable !== undefined)
    found.invalid(place.replace(/selectableFields$/, 'schema.openAPIV3Schema'), unreadable)
  const distinct = new Set<string>()
  for (const [at, { jsonPath }] of fields.entries()) {
    const of = `${place}[${at}].jsonPath`
    if (jsonPath === '') {
      found.required(of)
      continue
    }
    const field = followPath(jsonPath, schema, { brackets: false })
    if (typeof field === 'string') {
      found.invalid(of, field)
      continue
    }
    if (field.steps[0] === 'metadata') found.invalid(of, 'must not point to fields in metadata')
    if (!scalars.includes(field.schema.type))
      found.invalid(of, 'must point to a field of type string, boolean or integer')
    const name = field.steps.join('.')
    if (distinct.has(name)) found.duplicate(of, `is the second path to ${name}`)
    distinct.add(name)
  }
  const { maxFields } = selectableFieldDefaults
  if (distinct.size > maxFields)
    found.tooMany(place, `must have at most ${maxFields} fields, has ${distinct.size}`)
}
