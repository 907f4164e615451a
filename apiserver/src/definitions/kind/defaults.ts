import { isRecord } from '@setpoint/controller-runtime/api'
import type { BareObject, JsonObject, Scope } from '../../model/index.ts'
import { encodedAs } from '../go-shape.ts'
import { definitionShape } from './definition-shape.ts'

/**
 * Completes a new definition as Kubernetes does (`v1/defaults.go` and the strategy of the kind). As in the other functions, a
 * field of the wrong type stays as it is, so that its violation is reported.
 */
export function completeNew(draft: BareObject): void {
  draft.spec = recordOf(draft.spec)
  draft.status = {}
  complete(draft)
  addStorageVersion(draft)
}

/** Completes a changed definition. The version that objects are stored in from now on is added to those that are recorded. */
export function completeChanged(draft: BareObject, _previous: BareObject, scope: Scope): void {
  complete(draft)
  const { storedVersions } = recordOf(draft.status)
  if (scope === 'object' || !Array.isArray(storedVersions) || storedVersions.length === 0)
    addStorageVersion(draft)
}

function complete(draft: BareObject): void {
  const { spec, status } = recordOf(encodedAs(definitionShape, { spec: draft.spec, status: draft.status }))
  draft.spec = isRecord(spec) ? withDefaults(spec) : spec
  draft.status = status
}

function withDefaults(spec: JsonObject): JsonObject {
  const { names, conversion = { strategy: 'None' } } = spec
  return {
    ...spec,
    names: isRecord(names) ? withNames(names) : names,
    conversion: isRecord(conversion) ? withPort(conversion) : conversion,
  }
}

function withNames(names: JsonObject): JsonObject {
  const { kind } = names
  if (typeof kind !== 'string' || kind === '') return names
  return { singular: kind.toLowerCase(), listKind: `${kind}List`, ...names }
}

function withPort(conversion: JsonObject): JsonObject {
  const { webhook } = conversion
  if (!isRecord(webhook)) return conversion
  const { clientConfig } = webhook
  if (!isRecord(clientConfig) || !isRecord(clientConfig.service)) return conversion
  const service = { port: 443, ...clientConfig.service }
  return { ...conversion, webhook: { ...webhook, clientConfig: { ...clientConfig, service } } }
}

function addStorageVersion(draft: BareObject): void {
  const { versions } = recordOf(draft.spec)
  const stored = Array.isArray(versions)
    ? versions.find(each => isRecord(each) && each.storage === true)
    : undefined
  const status = recordOf(draft.status)
  const { storedVersions = [] } = status
  const name: unknown = recordOf(stored).name
  if (typeof name !== 'string' || !Array.isArray(storedVersions) || storedVersions.includes(name)) return
  draft.status = { ...status, storedVersions: [...storedVersions, name] }
}

function recordOf(value: unknown): JsonObject {
  return isRecord(value) ? value : {}
}
