import {
  checkDnsLabel,
  checkLabelKey,
  checkLabelValue,
  isRecord,
  nameLimits,
} from '@setpoint/controller-runtime/api'
import type { JsonObject } from './json-value.ts'
import { embeddedMetadataKeyword, errorBudget } from './schema-keywords.ts'

/** A part of the metadata that breaks a rule. */
interface MetadataProblem {
  /** The path below the metadata. */
  readonly path: readonly (string | number)[]
  /** A clause about the part, without its value. */
  readonly problem: string
}

const text = { type: ['string', 'null'] }
const time = { type: ['string', 'null'], format: 'date-time' }
const flag = { type: ['boolean', 'null'] }
const texts = { type: ['object', 'null'], additionalProperties: { [errorBudget]: true, type: 'string' } }
const owner = {
  [errorBudget]: true,
  type: 'object',
  properties: {
    apiVersion: text,
    kind: text,
    name: text,
    uid: text,
    controller: flag,
    blockOwnerDeletion: flag,
  },
}

/** The types of the metadata. Kubernetes reads null as an absent field. */
export const embeddedMetadataSchema: JsonObject = {
  type: ['object', 'null'],
  properties: {
    name: text,
    generateName: text,
    namespace: text,
    uid: text,
    resourceVersion: text,
    generation: { type: ['integer', 'null'], minimum: 0 },
    creationTimestamp: time,
    deletionTimestamp: time,
    labels: texts,
    annotations: texts,
    finalizers: { type: ['array', 'null'], items: { [errorBudget]: true, type: 'string' } },
    ownerReferences: { type: ['array', 'null'], items: owner },
  },
  [embeddedMetadataKeyword]: true,
}

/** Yields what Kubernetes refuses in the metadata of an embedded resource. Parts of a wrong type are left out. */
export function* problemsOfEmbedded(metadata: JsonObject): Generator<MetadataProblem> {
  const { name, generateName, namespace, labels, annotations, finalizers, ownerReferences } = metadata
  for (const [field, value] of Object.entries({ name, generateName })) {
    if (typeof value === 'string' && /^\.\.?$|[/%]/.test(value))
      yield { path: [field], problem: "must not be '.' or '..', and must not have '/' or '%'" }
  }
  const ofNamespace = typeof namespace === 'string' && namespace !== '' ? checkDnsLabel(namespace) : undefined
  if (ofNamespace !== undefined) yield { path: ['namespace'], problem: ofNamespace }
  for (const [key, value] of entriesOf(labels)) {
    const problem = checkLabelKey(key) ?? (typeof value === 'string' ? checkLabelValue(value) : undefined)
    if (problem !== undefined) yield { path: ['labels', key], problem }
  }
  yield* problemsOfAnnotations(annotations)
  for (const [at, finalizer] of itemsOf(finalizers)) {
    if (typeof finalizer === 'string' && checkLabelKey(finalizer) !== undefined)
      yield { path: ['finalizers', at], problem: 'must be of the form <domain>/<name>, or a name' }
  }
  for (const [at, reference] of itemsOf(ownerReferences)) {
    if (!isRecord(reference)) continue
    for (const field of ['apiVersion', 'kind', 'name', 'uid'])
      if (!reference[field]) yield { path: ['ownerReferences', at, field], problem: 'must not be empty' }
  }
}

function* problemsOfAnnotations(annotations: unknown): Generator<MetadataProblem> {
  let bytes = 0
  for (const [key, value] of entriesOf(annotations)) {
    bytes += Buffer.byteLength(key) + Buffer.byteLength(String(value))
    // Unlike labels, annotations may have a prefix with capital letters.
    if (checkLabelKey(key.toLowerCase()) !== undefined)
      yield { path: ['annotations', key], problem: 'must have a key of the form <domain>/<name>, or a name' }
  }
  if (bytes > nameLimits.annotationBytes)
    yield {
      path: ['annotations'],
      problem: `must have at most ${nameLimits.annotationBytes} bytes, has ${bytes}`,
    }
}

/**
 * Returns the keys of annotations that Kubernetes refuses. Unlike labels, annotations may have a prefix with capital
 * letters.
 */
export function checkAnnotationKeys(annotations: Readonly<Record<string, string>> = {}): string[] {
  return Object.keys(annotations).filter(key => checkLabelKey(key.toLowerCase()) !== undefined)
}

function entriesOf(value: unknown): [string, unknown][] {
  return isRecord(value) ? Object.entries(value) : []
}

function itemsOf(value: unknown): IterableIterator<[number, unknown]> {
  return (Array.isArray(value) ? value : []).entries()
}
