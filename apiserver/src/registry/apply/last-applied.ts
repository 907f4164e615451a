import { isRecord } from '@setpoint/controller-runtime/api'
import { objectLimits } from '../../model/index.ts'
import { compare } from './compare.ts'
import { difference, type FieldSet, noFields } from './field-set.ts'
import type { FieldType } from './field-type.ts'
import { fieldsOf } from './to-field-set.ts'

/** Client-side `kubectl apply` keeps the last configuration in this annotation. */
const lastAppliedAnnotation = 'kubectl.kubernetes.io/last-applied-configuration'

/** The manager of `kubectl apply --server-side`. Others can opt out of the annotation by their name. */
export const kubectlManager = 'kubectl'

/**
 * Returns the fields that client-side apply set and that still have its values. kubectl may take these without force,
 * so that moving to server-side apply does not conflict. From Kubernetes'
 * `managedfields/internal/lastappliedmanager.go`.
 */
export function fieldsLastApplied(type: FieldType, apiVersion: string, live: unknown): FieldSet {
  const text = annotationsOf(live)?.[lastAppliedAnnotation]
  if (typeof text !== 'string' || text === '') return noFields
  const config = parsed(text)
  if (!isRecord(config) || config.apiVersion !== apiVersion) return noFields
  const { added, modified, removed } = compare(type, config, live)
  return [modified, added, removed].reduce(difference, fieldsOf(type, config))
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function annotationsOf(object: unknown): Readonly<Record<string, unknown>> | undefined {
  const metadata = isRecord(object) ? object.metadata : undefined
  const annotations = isRecord(metadata) ? metadata.annotations : undefined
  return isRecord(annotations) ? annotations : undefined
}

/**
 * Returns an object whose annotation has the configuration that was applied now, if it has the annotation. If there is
 * no room for it, the annotation goes. From Kubernetes' `managedfields/internal/lastappliedupdater.go`.
 */
export function withLastApplied(object: unknown, config: Readonly<Record<string, unknown>>): unknown {
  const annotations = annotationsOf(object)
  if (!isRecord(object) || !isRecord(object.metadata) || !annotations?.[lastAppliedAnnotation]) return object
  const { [lastAppliedAnnotation]: _old, ...others } = annotations
  const text = `${JSON.stringify(withoutAnnotation(config))}\n`
  const next = sizeOf({ ...others, [lastAppliedAnnotation]: text }) <= objectLimits.annotationBytes
  return {
    ...object,
    metadata: {
      ...object.metadata,
      annotations: next ? { ...annotations, [lastAppliedAnnotation]: text } : others,
    },
  }
}

function withoutAnnotation(config: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const annotations = annotationsOf(config)
  if (annotations?.[lastAppliedAnnotation] === undefined || !isRecord(config.metadata)) return config
  const { [lastAppliedAnnotation]: _old, ...others } = annotations
  return { ...config, metadata: { ...config.metadata, annotations: others } }
}

function sizeOf(annotations: Readonly<Record<string, unknown>>): number {
  let bytes = 0
  for (const [key, value] of Object.entries(annotations))
    bytes += Buffer.byteLength(key) + Buffer.byteLength(String(value))
  return bytes
}
