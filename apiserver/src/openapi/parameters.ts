import { propagationPolicies } from '@setpoint/controller-runtime/api'
import type { JsonObject } from '../model/index.ts'
import { refTo } from './names.ts'

const query = (name: string, description: string, schema: JsonObject, more: JsonObject = {}) => ({
  name,
  in: 'query',
  description,
  schema,
  ...more,
})
const string = { type: 'string' }
const boolean = { type: 'boolean' }
const count = { type: 'integer', format: 'int64', minimum: 1 }

/** The parameters that documents share, by their names in `components`. */
const shared = {
  name: { name: 'name', in: 'path', required: true, description: 'The name of the object.', schema: string },
  namespace: {
    name: 'namespace',
    in: 'path',
    required: true,
    description: 'The namespace of the objects.',
    schema: string,
  },
  labelSelector: query(
    'labelSelector',
    'Selects objects by labels: k=v, k!=v, k, !k, k in (a,b), k notin (a,b), k<1, k>1. A comma means and.',
    string,
    { example: 'example.com/team in (a,b)' },
  ),
  page: query('page', 'The number of the page, from 1. Not with limit.', count),
  size: query('size', 'The number of objects of a page. Default: all. Not with limit.', count),
  limit: query(
    'limit',
    'The largest number of objects in the response. The token metadata.continue leads to the next ones, of the same state, in the order of names. 0 means no limit.',
    { type: 'integer', format: 'int64', minimum: 0 },
  ),
  continue: query('continue', 'The token of the list before.', string),
  version: query(
    'version',
    'For a get or list: a state at least as new as this version. For a watch: the version after which it starts.',
    string,
  ),
  resourceVersion: query(
    'resourceVersion',
    "The same as version. 0 allows the server's cached state, without asking the store.",
    string,
  ),
  resourceVersionMatch: query(
    'resourceVersionMatch',
    'With Exact, a list is of exactly this version: 410 if it is no longer kept. A watch takes NotOlderThan only.',
    { type: 'string', enum: ['Exact', 'NotOlderThan'] },
  ),
  watch: query('watch', 'With true, the response is a stream of events.', boolean),
  sendInitialEvents: query(
    'sendInitialEvents',
    'For a watch: send an ADDED for each existing object first. Default: true without a version.',
    boolean,
  ),
  allowWatchBookmarks: query(
    'allowWatchBookmarks',
    'For a watch: send bookmarks. Default: true for Server-Sent Events, else false.',
    boolean,
  ),
  timeoutSeconds: query('timeoutSeconds', 'For a watch: its lifetime. Default: 30 to 60 minutes.', {
    type: 'integer',
    format: 'int64',
    minimum: 0,
  }),
  propagationPolicy: query('propagationPolicy', 'What happens to dependents. Default: Background.', {
    type: 'string',
    enum: [...propagationPolicies],
  }),
  orphanDependents: query(
    'orphanDependents',
    'The older form of propagationPolicy: true for Orphan, false for Background.',
    boolean,
  ),
  ignoreStoreReadErrorWithClusterBreakingPotential: query(
    'ignoreStoreReadErrorWithClusterBreakingPotential',
    'Removes an object whose stored value cannot be read, without its finalizers. Refused for any other.',
    boolean,
  ),
  uid: query('uid', 'Deletes only the object with this uid; else 409.', string),
  deletedVersion: query('version', 'Deletes only the object at this version; else 409.', string),
  deletedResourceVersion: query('resourceVersion', 'The same as version.', string),
  dryRun: query('dryRun', 'With All, everything is done except storing.', { type: 'string', enum: ['All'] }),
  fieldValidation: query(
    'fieldValidation',
    'What happens to unknown fields and duplicate keys: Strict refuses them (400), Warn (the default) adds a Warning header for each, Ignore is silent.',
    { type: 'string', enum: ['Strict', 'Warn', 'Ignore'] },
  ),
} as const

export type SharedParameter = keyof typeof shared

export const sharedParameters: JsonObject = shared

/** Returns references to shared parameters. */
export function parameterRefs(...names: readonly SharedParameter[]): JsonObject[] {
  return names.map(name => refTo('parameters', name))
}

/** Returns shared parameters in full. kubectl follows no references in a PATCH. */
export function parametersInFull(...names: readonly SharedParameter[]): JsonObject[] {
  return names.map(name => shared[name])
}

/** The parameters of server-side apply. */
export const fieldManager = query(
  'fieldManager',
  'The manager that owns the written fields. Required for an apply; default for other writes: the first part of the User-Agent.',
  { type: 'string', maxLength: 128 },
)
export const force = query(
  'force',
  'For an apply: take over fields that other managers own with other values, instead of 409.',
  boolean,
)

/** Returns the parameter that selects by the indexes of a kind. */
export function fieldSelector(fields: readonly string[]): JsonObject {
  return query(
    'fieldSelector',
    `Selects objects by fields: f=v, f!=v, f in (a,b), f notin (a,b), f<v, f<=v, f>v, f>=v. A comma means and. Fields: ${fields.join(', ')}.`,
    string,
    { example: 'metadata.name=example' },
  )
}

/** Returns the parameter that sorts by the indexes of a kind. */
export function sort(fields: readonly string[]): JsonObject {
  return query(
    'sort',
    `The order: <field>,asc or <field>,desc; repeated for further keys, at most 4. Default: metadata.creationTimestamp,desc. Not with limit. Fields: ${fields.join(', ')}.`,
    { type: 'array', items: string, maxItems: 4 },
    { style: 'form', explode: true, example: ['metadata.name,asc'] },
  )
}
