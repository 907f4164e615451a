import type { GoField, GoFields, GoShape } from '../go-shape.ts'

/** The Go types of `apiextensions.k8s.io/v1` (k8s.io/apiextensions-apiserver v0.34, `types.go` and `types_jsonschema.go`). */

const always = (shape: GoShape): GoField => ({ shape, written: 'always' })
const present = (shape: GoShape): GoField => ({ shape, written: 'present' })
const filled = (shape: GoShape): GoField => ({ shape, written: 'filled' })
const struct = (fields: Readonly<Record<string, GoField>>) => ({ struct: new Map(Object.entries(fields)) })
const listOf = (list: GoShape): GoShape => ({ list })

const schemaFields = new Map<string, GoField>()

/** `JSONSchemaProps`, which contains itself. */
export const schemaShape: { readonly struct: GoFields } = { struct: schemaFields }

const schemas = listOf(schemaShape)
const schemasByName: GoShape = { map: schemaShape }
const schemaOrBoolean: GoShape = { oneOf: [schemaShape, 'boolean'] }
const schemaOrList: GoShape = { oneOf: [schemaShape, schemas] }
const schemaOrTexts: GoShape = { oneOf: [schemaShape, listOf('string')] }

const rule = struct({
  rule: always('string'),
  message: filled('string'),
  messageExpression: filled('string'),
  reason: present('string'),
  fieldPath: filled('string'),
  optionalOldSelf: present('boolean'),
})

const schemaKeywords: Readonly<Record<string, GoField>> = {
  id: filled('string'),
  $schema: filled('string'),
  $ref: present('string'),
  description: filled('string'),
  type: filled('string'),
  format: filled('string'),
  title: filled('string'),
  default: present('any'),
  maximum: present('number'),
  exclusiveMaximum: filled('boolean'),
  minimum: present('number'),
  exclusiveMinimum: filled('boolean'),
  maxLength: present('integer'),
  minLength: present('integer'),
  pattern: filled('string'),
  maxItems: present('integer'),
  minItems: present('integer'),
  uniqueItems: filled('boolean'),
  multipleOf: present('number'),
  enum: filled(listOf('any')),
  maxProperties: present('integer'),
  minProperties: present('integer'),
  required: filled(listOf('string')),
  items: present(schemaOrList),
  allOf: filled(schemas),
  oneOf: filled(schemas),
  anyOf: filled(schemas),
  not: present(schemaShape),
  properties: filled(schemasByName),
  additionalProperties: present(schemaOrBoolean),
  patternProperties: filled(schemasByName),
  dependencies: filled({ map: schemaOrTexts }),
  additionalItems: present(schemaOrBoolean),
  definitions: filled(schemasByName),
  externalDocs: present(struct({ description: filled('string'), url: filled('string') })),
  example: present('any'),
  nullable: filled('boolean'),
  'x-kubernetes-preserve-unknown-fields': present('boolean'),
  'x-kubernetes-embedded-resource': filled('boolean'),
  'x-kubernetes-int-or-string': filled('boolean'),
  'x-kubernetes-list-map-keys': filled(listOf('string')),
  'x-kubernetes-list-type': present('string'),
  'x-kubernetes-map-type': present('string'),
  'x-kubernetes-validations': filled(listOf(rule)),
}
for (const [keyword, field] of Object.entries(schemaKeywords)) schemaFields.set(keyword, field)

const names = struct({
  plural: always('string'),
  singular: filled('string'),
  shortNames: filled(listOf('string')),
  kind: always('string'),
  listKind: filled('string'),
  categories: filled(listOf('string')),
})

const column = struct({
  name: always('string'),
  type: always('string'),
  format: filled('string'),
  description: filled('string'),
  priority: filled('integer'),
  jsonPath: always('string'),
})

const scale = struct({
  specReplicasPath: always('string'),
  statusReplicasPath: always('string'),
  labelSelectorPath: present('string'),
})

const version = struct({
  name: always('string'),
  served: always('boolean'),
  storage: always('boolean'),
  deprecated: filled('boolean'),
  deprecationWarning: present('string'),
  schema: present(struct({ openAPIV3Schema: present(schemaShape) })),
  subresources: present(struct({ status: present(struct({})), scale: present(scale) })),
  additionalPrinterColumns: filled(listOf(column)),
  selectableFields: filled(listOf(struct({ jsonPath: always('string') }))),
})

const service = struct({
  namespace: always('string'),
  name: always('string'),
  path: present('string'),
  port: present('integer'),
})

const conversion = struct({
  strategy: always('string'),
  webhook: present(
    struct({
      clientConfig: present(
        struct({ url: present('string'), service: present(service), caBundle: filled('string') }),
      ),
      conversionReviewVersions: always(listOf('string')),
    }),
  ),
})

const condition = struct({
  type: always('string'),
  status: always('string'),
  lastTransitionTime: present('string'),
  reason: filled('string'),
  message: filled('string'),
})

/** `CustomResourceDefinition`, but for the metadata. */
export const definitionShape = struct({
  spec: always(
    struct({
      group: always('string'),
      names: always(names),
      scope: always('string'),
      versions: always(listOf(version)),
      conversion: present(conversion),
      preserveUnknownFields: filled('boolean'),
    }),
  ),
  status: always(
    struct({
      conditions: always(listOf(condition)),
      acceptedNames: always(names),
      storedVersions: always(listOf('string')),
    }),
  ),
})
