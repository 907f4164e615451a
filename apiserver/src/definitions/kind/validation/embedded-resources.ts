import { isRecord } from '@setpoint/controller-runtime/api'
import { type JsonObject, problemsOfEmbedded } from '../../../model/index.ts'
import { Findings } from '../../findings.ts'
import { decodedAs, findMistyped, type GoField, type GoShape } from '../../go-shape.ts'
import { problemOfLabel } from '../../label.ts'
import { itemsOf, propertyOf, type SchemaProps, valuesOf } from './schema-props.ts'

const field = (shape: GoShape): GoField => ({ shape, written: 'filled' })
const structOf = (fields: Readonly<Record<string, GoShape>>): GoShape => ({
  struct: new Map(Object.entries(fields).map(([name, shape]) => [name, field(shape)])),
})

const text = 'string'
const texts: GoShape = { map: text }

/** The types of `ObjectMeta`. */
const metadataShape = structOf({
  name: text,
  generateName: text,
  namespace: text,
  selfLink: text,
  uid: text,
  resourceVersion: text,
  generation: 'integer',
  creationTimestamp: text,
  deletionTimestamp: text,
  deletionGracePeriodSeconds: 'integer',
  labels: texts,
  annotations: texts,
  finalizers: { list: text },
  ownerReferences: {
    list: structOf({
      apiVersion: text,
      kind: text,
      name: text,
      uid: text,
      controller: 'boolean',
      blockOwnerDeletion: 'boolean',
    }),
  },
})

/**
 * Checks the embedded resources in a value: their `apiVersion`, `kind` and `metadata`. Of wrong types, the first is the only violation.
 * @param isRoot true if the value is a resource whatever its schema says
 */
export function checkResources(
  schema: SchemaProps,
  value: unknown,
  place: string,
  isRoot: boolean,
  found: Findings,
): void {
  const mistyped = new Findings()
  visit(schema, value, place, isRoot, (resource, at) => checkTypes(resource, at, mistyped))
  const [first] = mistyped.violations
  if (first !== undefined) {
    found.invalid(first.field, first.message)
    return
  }
  visit(schema, value, place, isRoot, (resource, at) => checkResource(resource, at, found))
}

type Visit = (resource: JsonObject, place: string) => void

function visit(
  schema: SchemaProps | undefined,
  value: unknown,
  place: string,
  isRoot: boolean,
  onResource: Visit,
): void {
  if (schema === undefined) return
  if (Array.isArray(value)) {
    const items = itemsOf(schema)
    for (const [at, item] of value.entries()) visit(items, item, `${place}[${at}]`, false, onResource)
  } else if (isRecord(value)) {
    if (isRoot || schema['x-kubernetes-embedded-resource']) onResource(value, place)
    for (const [name, item] of Object.entries(value)) {
      const property = propertyOf(schema, name)
      if (property !== undefined) visit(property, item, `${place}.${name}`, false, onResource)
      else visit(valuesOf(schema), item, `${place}[${name}]`, false, onResource)
    }
  }
}

function checkTypes(resource: JsonObject, place: string, found: Findings): void {
  for (const name of ['apiVersion', 'kind'])
    if (Object.hasOwn(resource, name) && typeof resource[name] !== 'string')
      found.invalid(`${place}.${name}`, 'must be a string')
  if (!Object.hasOwn(resource, 'metadata')) return
  findMistyped(metadataShape, decodedAs(metadataShape, resource.metadata) ?? {}, ({ path, expected }) =>
    found.invalid(
      `${place}.metadata`,
      `must be valid metadata: ${path.join('.') || 'it'} must be ${expected}`,
    ),
  )
}

function checkResource({ apiVersion, kind, metadata }: JsonObject, place: string, found: Findings): void {
  if (apiVersion === undefined) found.required(`${place}.apiVersion`)
  else if (apiVersion === '' || String(apiVersion).split('/').length > 2)
    found.invalid(`${place}.apiVersion`, 'must be <group>/<version>, or a version')
  if (kind === undefined) found.required(`${place}.kind`)
  else {
    const problem = kind === '' ? 'must not be empty' : problemOfLabel(String(kind).toLowerCase())
    if (problem !== undefined) found.invalid(`${place}.kind`, problem)
  }
  for (const { path, problem } of problemsOfEmbedded(isRecord(metadata) ? metadata : {})) {
    // Kubernetes names the field of an owner, but not which owner.
    const [part, , field] = path
    found.invalid(`${place}.metadata.${part}${field === undefined ? '' : `.${field}`}`, problem)
  }
}
