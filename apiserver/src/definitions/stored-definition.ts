import { isRecord, type PrinterColumn } from '@setpoint/controller-runtime/api'
import { compileJsonPath } from '@setpoint/controller-runtime/internal'
import { type Fields, recordOf, recordsOf, textOf, textsOf } from '../kubernetes/index.ts'
import type { JsonObject, ScalePaths } from '../model/index.ts'

/** The names of a definition's kind. */
export interface DefinitionNames {
  readonly plural: string
  readonly singular: string
  readonly kind: string
  readonly listKind: string
  readonly shortNames: readonly string[]
  readonly categories: readonly string[]
}

/** An entry of a definition's `spec.versions`. */
export interface DefinitionVersion {
  readonly name: string
  readonly isServed: boolean
  readonly isStorage: boolean
  readonly isDeprecated: boolean
  readonly deprecationWarning: string | undefined
  /** `openAPIV3Schema`. */
  readonly root: JsonObject
  readonly hasStatus: boolean
  readonly scale: ScalePaths | undefined
  readonly columns: readonly PrinterColumn[]
  /** JSONPaths. */
  readonly selectable: readonly string[]
}

/** The parts of a stored CustomResourceDefinition that serving its kind needs. */
export interface StoredDefinition {
  readonly name: string
  readonly uid: string
  readonly resourceVersion: string
  readonly createdAt: string
  readonly isDeleting: boolean
  readonly finalizers: readonly string[]
  readonly group: string
  readonly isNamespaced: boolean
  readonly names: DefinitionNames
  readonly versions: readonly DefinitionVersion[]
  readonly conversion: Fields
  /** The whole object. */
  readonly object: Fields
  readonly status: Fields
  readonly acceptedNames: DefinitionNames
  readonly conditions: readonly Fields[]
}

/** Reads a definition from its wire JSON. It was validated when it was stored. */
export function readDefinition(bytes: Buffer): StoredDefinition {
  const object = recordOf(JSON.parse(bytes.toString()))
  const metadata = recordOf(object.metadata)
  const spec = recordOf(object.spec)
  const status = recordOf(object.status)
  return {
    name: textOf(metadata.name),
    uid: textOf(metadata.uid),
    resourceVersion: textOf(metadata.resourceVersion),
    createdAt: textOf(metadata.creationTimestamp),
    isDeleting: metadata.deletionTimestamp !== undefined,
    finalizers: textsOf(metadata.finalizers),
    group: textOf(spec.group),
    isNamespaced: spec.scope === 'Namespaced',
    names: readNames(spec.names),
    versions: recordsOf(spec.versions).map(version => readVersion(version, spec)),
    conversion: recordOf(spec.conversion),
    object,
    status,
    acceptedNames: readNames(status.acceptedNames),
    conditions: recordsOf(status.conditions),
  }
}

/** Returns true if a condition of the definition is `True`. */
export function hasCondition({ conditions }: StoredDefinition, type: string): boolean {
  return conditions.some(condition => condition.type === type && condition.status === 'True')
}

function readNames(value: unknown): DefinitionNames {
  const { plural, singular, kind, listKind, shortNames, categories } = recordOf(value)
  return {
    plural: textOf(plural),
    singular: textOf(singular),
    kind: textOf(kind),
    listKind: textOf(listKind),
    shortNames: textsOf(shortNames),
    categories: textsOf(categories),
  }
}

function readVersion(version: Fields, { preserveUnknownFields }: Fields): DefinitionVersion {
  const { openAPIV3Schema } = recordOf(version.schema)
  const subresources = recordOf(version.subresources)
  const root = { type: 'object', ...recordOf(openAPIV3Schema) }
  return {
    name: textOf(version.name),
    isServed: version.served === true,
    isStorage: version.storage === true,
    isDeprecated: version.deprecated === true,
    deprecationWarning:
      typeof version.deprecationWarning === 'string' ? version.deprecationWarning : undefined,
    root: preserveUnknownFields === true ? { ...root, 'x-kubernetes-preserve-unknown-fields': true } : root,
    hasStatus: isRecord(subresources.status),
    scale: readScale(subresources.scale),
    columns: readColumns(version.additionalPrinterColumns),
    selectable: recordsOf(version.selectableFields).map(({ jsonPath }) => textOf(jsonPath)),
  }
}

function readScale(value: unknown): ScalePaths | undefined {
  if (!isRecord(value)) return undefined
  const { specReplicasPath, statusReplicasPath, labelSelectorPath } = value
  const selector = textOf(labelSelectorPath)
  return {
    spec: textOf(specReplicasPath),
    status: textOf(statusReplicasPath),
    selector: selector === '' ? undefined : selector,
  }
}

/** Kubernetes accepts a column with a malformed path, and shows neither that column nor those behind it. */
function readColumns(value: unknown): PrinterColumn[] {
  const columns = recordsOf(value).map(readColumn)
  const end = columns.findIndex(column => !hasPath(column))
  return end < 0 ? columns : columns.slice(0, end)
}

function hasPath({ jsonPath }: PrinterColumn): boolean {
  try {
    compileJsonPath(jsonPath)
    return true
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return false
  }
}

const columnTypes = ['string', 'integer', 'number', 'boolean', 'date'] as const

function readColumn({ name, type, format, description, priority, jsonPath }: Fields): PrinterColumn {
  return {
    name: textOf(name),
    type: columnTypes.find(each => each === type) ?? 'string',
    jsonPath: textOf(jsonPath),
    ...(typeof format === 'string' && { format }),
    ...(typeof description === 'string' && { description }),
    ...(typeof priority === 'number' && { priority }),
  }
}
