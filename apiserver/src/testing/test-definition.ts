import { isRecord } from '@setpoint/controller-runtime/api'
import { definitionKind } from '../definitions/kind/index.ts'
import { inspectDefinition } from '../definitions/kind/validation/index.ts'
import type { BareObject, JsonObject, Scope } from '../model/index.ts'

/** A definition of Widgets as a client sends it, with its parts at hand. */
export interface TestDefinition {
  metadata: { name: string; annotations?: Record<string, string> }
  spec: JsonObject & { names: JsonObject; versions: JsonObject[] }
  status?: JsonObject
}

/** Changes a definition, or returns another one. */
export type Change = (definition: TestDefinition) => unknown

/** Returns a valid definition with changes. */
export function definitionWith(...changes: readonly Change[]): TestDefinition {
  const definition: TestDefinition = {
    metadata: { name: 'widgets.example.com' },
    spec: {
      group: 'example.com',
      scope: 'Namespaced',
      names: { plural: 'widgets', kind: 'Widget' },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: {
            openAPIV3Schema: {
              type: 'object',
              properties: {
                spec: {
                  type: 'object',
                  properties: { size: { type: 'integer' }, color: { type: 'string' } },
                },
                status: { type: 'object', properties: { replicas: { type: 'integer' } } },
              },
            },
          },
        },
      ],
    },
  }
  for (const change of changes) change(definition)
  return definition
}

/** Changes the spec. */
export const withSpec =
  (spec: JsonObject): Change =>
  definition => {
    Object.assign(definition.spec, spec)
  }

export const withNames =
  (names: JsonObject): Change =>
  definition => {
    Object.assign(definition.spec.names, names)
  }

/** Changes the only version. */
export const withVersion =
  (version: JsonObject): Change =>
  ({ spec }) => {
    Object.assign(spec.versions[0] ?? {}, version)
  }

/** Adds a version that is not stored. */
export const withSecond =
  (version: JsonObject = {}): Change =>
  ({ spec }) => {
    spec.versions.push({ ...structuredClone(spec.versions[0]), name: 'v2', storage: false, ...version })
  }

/** Changes the schema of whole objects. */
export const withRoot =
  (schema: JsonObject): Change =>
  definition => {
    Object.assign(rootOf(definition), schema)
  }

/** Sets the schema of `spec.field`. */
export const withField =
  (schema: JsonObject): Change =>
  definition => {
    const { properties } = rootOf(definition)
    const spec = isRecord(properties) ? properties.spec : undefined
    if (isRecord(spec)) spec.properties = { ...Object(spec.properties), field: schema }
  }

export const withAnnotations =
  (annotations: Record<string, string>): Change =>
  ({ metadata }) => {
    metadata.annotations = annotations
  }

function rootOf({ spec }: TestDefinition): JsonObject {
  const { schema } = spec.versions[0] ?? {}
  const root = isRecord(schema) ? schema.openAPIV3Schema : undefined
  return isRecord(root) ? root : {}
}

const kind = definitionKind()

/** Returns a definition as it is stored, with its defaults. */
export function stored(sent: TestDefinition, { status }: { status?: JsonObject } = {}): BareObject {
  const draft = draftOf(sent)
  kind.rules?.created?.(draft)
  if (status !== undefined) draft.status = { ...Object(draft.status), ...structuredClone(status) }
  return draft
}

/** Returns a stored definition after a write. */
export function changed(previous: BareObject, sent: TestDefinition, scope: Scope = 'object'): BareObject {
  const draft = draftOf(sent)
  if (scope === 'object') draft.status = structuredClone(previous.status)
  else draft.spec = structuredClone(previous.spec)
  kind.rules?.updated?.(draft, previous, scope)
  return draft
}

function draftOf(sent: TestDefinition): BareObject {
  const { apiVersion, kind: name } = kind.model
  const metadata = { ...sent.metadata, uid: 'test', creationTimestamp: '2025-01-01T00:00:00Z' }
  return kind.schemas.prune(structuredClone({ ...sent, apiVersion, kind: name, metadata }))
}

/** Returns the causes that refuse a new definition, sorted: `Invalid spec.scope`. */
export async function refusals(sent: TestDefinition): Promise<string[]> {
  return causesOf(await inspectDefinition(stored(sent), undefined, 'object'))
}

/** Returns the causes that refuse a change of a stored definition, sorted. */
export async function refusalsOfChange(
  previous: BareObject,
  sent: TestDefinition,
  scope: Scope = 'object',
): Promise<string[]> {
  return causesOf(await inspectDefinition(changed(previous, sent, scope), previous, scope))
}

function causesOf(violations: Awaited<ReturnType<typeof inspectDefinition>>): string[] {
  const causes = violations.map(({ reason = '', field }) => `${reason.replace('FieldValue', '')} ${field}`)
  return causes.sort()
}
