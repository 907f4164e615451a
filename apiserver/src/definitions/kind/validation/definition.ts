import { findMistyped, type Mistyped } from '../../go-shape.ts'
import type { ClientConfig } from '../../webhooks/index.ts'
import { definitionShape } from '../definition-shape.ts'
import type { SchemaProps } from './schema-props.ts'

export interface DefinitionNames {
  readonly plural: string
  readonly singular?: string
  readonly shortNames?: readonly string[]
  readonly kind: string
  readonly listKind?: string
  readonly categories?: readonly string[]
}

export interface PrinterColumn {
  readonly name: string
  readonly type: string
  readonly format?: string
  readonly priority?: number
  readonly jsonPath: string
}

export interface SelectableField {
  readonly jsonPath: string
}

export interface Subresources {
  readonly status?: object
  readonly scale?: {
    readonly specReplicasPath: string
    readonly statusReplicasPath: string
    readonly labelSelectorPath?: string
  }
}

export interface DefinitionVersion {
  readonly name: string
  readonly served: boolean
  readonly storage: boolean
  readonly deprecated?: boolean
  readonly deprecationWarning?: string
  readonly schema?: { readonly openAPIV3Schema?: SchemaProps }
  readonly subresources?: Subresources
  readonly additionalPrinterColumns?: readonly PrinterColumn[]
  readonly selectableFields?: readonly SelectableField[]
}

export interface Conversion {
  readonly strategy: string
  readonly webhook?: {
    readonly clientConfig?: ClientConfig
    readonly conversionReviewVersions?: readonly string[]
  }
}

export interface DefinitionSpec {
  readonly group: string
  readonly names: DefinitionNames
  readonly scope: string
  readonly versions?: readonly DefinitionVersion[]
  readonly conversion?: Conversion
  readonly preserveUnknownFields?: boolean
}

/** The content of a definition whose fields have the types of Go. */
export interface DefinitionContent {
  readonly spec: DefinitionSpec
  readonly status: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
    readonly acceptedNames: DefinitionNames
    readonly storedVersions?: readonly string[]
  }
}

/** Reads the content of a definition, which `defaults.ts` has completed, or finds the values of other types. */
export function readDefinition({
  spec,
  status,
}: {
  readonly spec?: unknown
  readonly status?: unknown
}): DefinitionContent | readonly Mistyped[] {
  const content = { spec, status }
  const mistyped: Mistyped[] = []
  return isContent(content, mistyped) ? content : mistyped
}

function isContent(content: unknown, mistyped: Mistyped[]): content is DefinitionContent {
  findMistyped(definitionShape, content, found => mistyped.push(found))
  return mistyped.length === 0
}
