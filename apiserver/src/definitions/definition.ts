import type { ContentSchema, Model, PrinterColumn } from '@setpoint/controller-runtime/api'
import type { JsonObject } from '../model/index.ts'
import { type FieldIndex, fieldOf, propertyAt } from './field-index.ts'
import { indexesAnnotation } from './kind/index.ts'
import { toStructuralSchema } from './structural-schema.ts'

/** A kind as a CustomResourceDefinition. */
export interface Definition {
  /** `apiextensions.k8s.io/v1`. */
  readonly object: JsonObject
  /** What the model says and the definition cannot, a sentence each. */
  readonly notes: readonly string[]
}

interface VersionOfModel {
  readonly name: string
  readonly schema: ContentSchema
  readonly deprecated?: string | undefined
  readonly printerColumns: readonly PrinterColumn[]
}

/** Returns a model as a definition of Kubernetes. */
export function definitionOf(model: Model): Definition {
  const { group, version, kind, plural, singular, scope, storedVersion = version } = model
  const notes = new Set<string>()
  const indexes = model.indexes.flatMap(spec => {
    const field = fieldOf(spec, model)
    if (field !== undefined) return [field]
    notes.add(
      `The index ${spec.name} is left out, because its function does more than to read the field of that name.`,
    )
    return []
  })
  const selectable = indexes.filter(isSelectable)
  const others = indexes.filter(index => !isSelectable(index))
  const hub = { name: version, schema: model.schema, printerColumns: model.printerColumns }
  const versions: VersionOfModel[] = [
    hub,
    ...model.versions.map(({ name, schema, deprecated, printerColumns = model.printerColumns }) => ({
      ...{ name, schema, deprecated, printerColumns },
    })),
  ]
  noteFunctions(model, notes)
  const object = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: `${plural}.${group}`,
      ...(others.length > 0 && {
        annotations: { [indexesAnnotation]: JSON.stringify(others.map(declared)) },
      }),
    },
    spec: {
      group,
      scope,
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular,
        ...(model.shortNames.length > 0 && { shortNames: model.shortNames }),
        ...(model.categories.length > 0 && { categories: model.categories }),
      },
      versions: versions.map(each => versionOf(each, model, each.name === storedVersion, selectable, notes)),
    },
  }
  return { object, notes: [...notes] }
}

/** Returns true for an index that Kubernetes has too: of one value, and nothing else. */
function isSelectable({ spec }: FieldIndex): boolean {
  return !spec.multiple && !spec.unique && spec.order === 'ASC'
}

/** Returns the entry of an index in the annotation. */
function declared({ spec, path }: FieldIndex): JsonObject {
  return {
    path,
    ...(spec.multiple && { multi: true }),
    ...(spec.unique && { unique: true }),
    ...(spec.uniqueWithin !== undefined && { uniqueWithin: spec.uniqueWithin }),
    ...(spec.order !== 'ASC' && { order: spec.order }),
  }
}

function versionOf(
  { name, schema, deprecated, printerColumns }: VersionOfModel,
  model: Model,
  storage: boolean,
  selectable: readonly FieldIndex[],
  notes: Set<string>,
): JsonObject {
  const leftOut = (place: string, why: string) => notes.add(`In ${name}, ${place} is without ${why}.`)
  const content = Object.entries(schema).map(([field, each]) => [
    field,
    toStructuralSchema(each, field, { keepsUnknown: !model.prune, leftOut }),
  ])
  const fields = selectable.filter(({ spec }) => propertyAt(schema, spec.name.split('.')) !== undefined)
  return {
    name,
    served: true,
    storage,
    ...(deprecated !== undefined && { deprecated: true, deprecationWarning: deprecated }),
    schema: {
      openAPIV3Schema: {
        type: 'object',
        required: ['spec'],
        properties: {
          apiVersion: { type: 'string' },
          kind: { type: 'string' },
          metadata: { type: 'object' },
          ...Object.fromEntries(content),
        },
      },
    },
    ...(model.subresources.status && { subresources: { status: {} } }),
    ...(fields.length > 0 && { selectableFields: fields.map(({ path }) => ({ jsonPath: path })) }),
    ...(printerColumns.length > 0 && { additionalPrinterColumns: printerColumns }),
  }
}

function noteFunctions(model: Model, notes: Set<string>): void {
  const hooks = (['default', 'validate', 'admit'] as const).filter(hook => model[hook] !== undefined)
  if (hooks.length > 0)
    notes.add(`The model's ${hooks.join(', ')} is code: in a cluster, an admission webhook does that.`)
  if (model.versions.length > 0)
    notes.add(
      'The conversions of its versions are code: with the strategy None, which stands here by default, a cluster changes only apiVersion. Give it a webhook if the versions differ.',
    )
  if (model.sensitive)
    notes.add('The kind is sensitive: limit by roles who may read it, and encrypt it at rest.')
  if (model.names === 'dns-label')
    notes.add('In Setpoint, names of these objects have no dots; a cluster accepts them.')
}
