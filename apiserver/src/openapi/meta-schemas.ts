import { propagationPolicies, statusReasons } from '@setpoint/controller-runtime/api'
import type { JsonObject } from '../model/index.ts'
import { metaName, partsOf, refTo } from './names.ts'

/** Returns a reference to a schema that all documents share, with a description of its use. */
export function metaRef(name: string, description: string): JsonObject {
  return { description, allOf: [refTo('schemas', metaName(name))] }
}

const text = (description: string, more: JsonObject = {}) => ({ type: 'string', description, ...more })
const flag = (description: string) => ({ type: 'boolean', description })
const integer = (description: string) => ({ type: 'integer', format: 'int64', description })
const time = (description: string) => text(description, { format: 'date-time' })
const map = (description: string) => ({
  type: 'object',
  description,
  additionalProperties: { type: 'string' },
})
const list = (items: JsonObject, description: string, listType = 'atomic') => ({
  type: 'array',
  description,
  items,
  'x-kubernetes-list-type': listType,
})

export const apiVersion = text('The group and version of this representation: <group>/<version>.')
export const kind = text('The kind of this representation, in CamelCase.')

const versionText =
  'The revision of the last write, in decimal digits; versions of one server compare as integers. Set by the server. In a replacement or a patch it is a precondition: 409 if it is not the current version.'

const ownerReference = {
  type: 'object',
  description: 'An owner of the object. When all owners are gone, the object is deleted.',
  required: ['apiVersion', 'kind', 'name', 'uid'],
  properties: {
    apiVersion: text('The group and version of the owner. Only the group decides.'),
    kind: text('The kind of the owner.'),
    name: text('The name of the owner.'),
    uid: text('The uid of the owner. Another object of the same name does not own this one.'),
    controller: flag('True for the owner that manages the object. At most one owner.'),
    blockOwnerDeletion: flag('True if a foreground deletion of the owner waits for this object.'),
  },
  'x-kubernetes-map-type': 'atomic',
}

const objectMeta = {
  type: 'object',
  description:
    'The metadata of an object. The server ignores unknown fields, and values of fields that it sets.',
  properties: {
    name: text(
      "Identifies the object among those of its kind: lower-case letters, digits and '-', and '.' if the kind allows it. It cannot change.",
      { maxLength: 253 },
    ),
    generateName: text('If name is absent, the name is this prefix and five random characters.'),
    labels: map('Keys and values to select objects by.'),
    annotations: map('Keys and values for any other purpose, at most 256 KiB together.'),
    finalizers: {
      ...list(
        { type: 'string', maxLength: 253 },
        'A deleted object stays until this list is empty. Each entry names a controller that has work to do before.',
        'set',
      ),
      'x-kubernetes-patch-strategy': 'merge',
    },
    ownerReferences: {
      ...list(refTo('schemas', metaName('OwnerReference')), 'The owners of the object.', 'map'),
      'x-kubernetes-list-map-keys': ['uid'],
      'x-kubernetes-patch-strategy': 'merge',
      'x-kubernetes-patch-merge-key': 'uid',
    },
    uid: text(
      'Distinguishes the object from a later one of the same name. Set by the server. In a replacement or a patch it is a precondition.',
      { format: 'uuid' },
    ),
    version: text(versionText),
    resourceVersion: text(
      'Always equal to version, for Kubernetes clients. If a request has both and they differ, resourceVersion decides.',
    ),
    generation: integer(
      'Starts at 1 and rises with each change of the desired state, and when the deletion starts. Set by the server.',
    ),
    creationTimestamp: time('When the object was created. Set by the server.'),
    deletionTimestamp: time(
      'When the deletion was requested. Set by the server, once; an object without it is not being deleted.',
    ),
  },
}

/** The field of ObjectMeta that namespaced kinds have. */
const namespace = text('The namespace of the object. It is that of the path, and cannot change.')

/** The field of ObjectMeta that server-side apply keeps. */
const managedFields = list(
  refTo('schemas', metaName('ManagedFieldsEntry')),
  'The fields that each manager owns. Present from the first server-side apply on; kept by the server.',
)

const managedFieldsEntry = {
  type: 'object',
  description: 'The fields of an object that one manager owns.',
  properties: {
    manager: text('The name of the manager.'),
    operation: text('How the manager wrote the fields: Apply or Update.'),
    apiVersion: text('The version of the kind that fieldsV1 is in.'),
    subresource: text('The subresource that was written; absent for the object itself.'),
    time: time('When the entry last changed.'),
    fieldsType: text('The format of fieldsV1: FieldsV1.'),
    fieldsV1: {
      type: 'object',
      description: 'The fields, as a tree of f:<field>, k:<keys of an item>, v:<value of an item>.',
      additionalProperties: {},
    },
  },
}

const listMeta = {
  type: 'object',
  description: 'The metadata of a list.',
  required: ['version', 'resourceVersion'],
  properties: {
    version: text(
      'The state of the store that all items are from. A watch from here continues exactly there.',
    ),
    resourceVersion: text('Always equal to version, for Kubernetes clients.'),
    continue: text('The token for the next page of a list with limit. Absent on the last page.'),
    remainingItemCount: integer('The number of items after this page.'),
  },
}

const status = {
  type: 'object',
  description:
    'The body of every error response, and of the response to a DELETE that does not show the object.',
  required: ['kind', 'apiVersion', 'status'],
  properties: {
    kind,
    apiVersion,
    metadata: { type: 'object', description: 'Empty.', additionalProperties: {} },
    status: text('Failure, or Success of a DELETE. Only a failure has a message, a reason and a code.'),
    message: text('For people. It may change; decide by the reason.'),
    reason: text('Why the request failed.', { enum: Object.keys(statusReasons) }),
    code: { type: 'integer', format: 'int32', description: 'The HTTP status code.' },
    details: refTo('schemas', metaName('StatusDetails')),
  },
}

const statusDetails = {
  type: 'object',
  description: 'The subject of the request, and the causes of a failure.',
  properties: {
    group: text('The group of the kind.'),
    kind: text('The plural of the kind.'),
    name: text('The name of the object.'),
    uid: text('The uid of the object.'),
    causes: list(refTo('schemas', metaName('StatusCause')), 'The causes, at most 100.'),
    retryAfterSeconds: {
      type: 'integer',
      format: 'int32',
      description: 'Seconds until another attempt makes sense.',
    },
  },
}

const statusCause = {
  type: 'object',
  description: 'One cause of a failure, usually of one field.',
  required: ['reason', 'message'],
  properties: {
    reason: text('Why, for example FieldValueInvalid.'),
    message: text('For people.'),
    field: text('The path of the field, for example spec.tags[2].'),
  },
}

const deleteOptions = {
  type: 'object',
  description: 'The options of a deletion. Those of the query have the same names.',
  properties: {
    apiVersion,
    kind,
    dryRun: list({ type: 'string', enum: ['All'] }, 'With All, everything is done except the deletion.'),
    preconditions: refTo('schemas', metaName('Preconditions')),
    propagationPolicy: text('What happens to dependents. Default: Background.', {
      enum: [...propagationPolicies],
    }),
    ignoreStoreReadErrorWithClusterBreakingPotential: flag(
      'Removes an object whose stored value cannot be read, without its finalizers. Refused for any other.',
    ),
    orphanDependents: flag('The older form of propagationPolicy: true for Orphan, false for Background.'),
  },
}

const preconditions = {
  type: 'object',
  description: 'The object is deleted only if it has these values; else 409.',
  properties: {
    uid: text('The uid of the object.'),
    version: text('The version of the object.'),
    resourceVersion: text('The same as version.'),
  },
}

const watchEvent = {
  type: 'object',
  description: 'One event of a watch.',
  required: ['type', 'object'],
  properties: {
    type: text('What happened.', { enum: ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'] }),
    object: {
      type: 'object',
      description:
        'The object after the change; of DELETED, the last state; of BOOKMARK, only its version; of ERROR, a Status.',
      additionalProperties: {},
    },
  },
}

const table = {
  type: 'object',
  description:
    'Objects as the rows of a table, for the Accept header application/json;as=Table;v=v1;g=meta.k8s.io.',
  required: ['apiVersion', 'kind', 'metadata', 'columnDefinitions', 'rows'],
  properties: {
    apiVersion,
    kind,
    metadata: metaRef('ListMeta', 'The metadata of the list, or the version of the object.'),
    columnDefinitions: list(
      {
        type: 'object',
        required: ['name', 'type', 'format', 'description', 'priority'],
        properties: {
          name: text('The heading.'),
          type: text('The type of the cells: string, integer, number, boolean or date.'),
          format: text('The format of the cells; name for the names of the objects.'),
          description: text('What the cells show.'),
          priority: { type: 'integer', format: 'int32', description: '0, or more for a wide table.' },
        },
      },
      'The columns. Of a watch, only the first event has them.',
    ),
    rows: list(
      {
        type: 'object',
        required: ['cells'],
        properties: {
          cells: { type: 'array', description: 'The values of the columns.', items: {} },
          object: {
            type: 'object',
            nullable: true,
            description: 'What the query parameter includeObject asks for: the metadata by default.',
            additionalProperties: {},
          },
        },
      },
      'A row for each object.',
    ),
  },
}

const partialMetadata = {
  type: 'object',
  description: 'An object without its content.',
  required: ['apiVersion', 'kind', 'metadata'],
  properties: { apiVersion, kind, metadata: metaRef('ObjectMeta', 'The metadata of the object.') },
}

const partialMetadataList = {
  type: 'object',
  description: 'The metadata of the objects of a list.',
  required: ['apiVersion', 'kind', 'metadata', 'items'],
  properties: {
    apiVersion,
    kind,
    metadata: metaRef('ListMeta', 'The state of the list.'),
    items: list(refTo('schemas', metaName('PartialObjectMetadata')), 'The objects.'),
  },
}

const patch = {
  type: 'object',
  description: 'The parts of an object to change.',
  additionalProperties: {},
}

const jsonPatch = {
  type: 'array',
  description: 'A JSON patch (RFC 6902): operations that are done in order, all or none.',
  items: {
    type: 'object',
    required: ['op', 'path'],
    properties: {
      op: text('The operation.', { enum: ['add', 'remove', 'replace', 'move', 'copy', 'test'] }),
      path: text('The place, as a JSON pointer.', { format: 'json-pointer' }),
      from: text('The source of move and copy, as a JSON pointer.', { format: 'json-pointer' }),
      value: { description: 'The value of add, replace and test.' },
    },
  },
}

/** What the kinds of a document can do. */
interface Features {
  readonly apply: boolean
  readonly namespaces: boolean
}

/** Returns the schemas that every document of kinds has. */
export function metaSchemas(groupVersions: readonly string[], has: Features): JsonObject {
  const ofKind = (name: string, groups: readonly object[]) => ({
    'x-kubernetes-group-version-kind': groups.map(each => ({ ...each, kind: name })),
  })
  const everywhere = [...new Set(['v1', ...groupVersions])].map(partsOf)
  const { name, ...others } = objectMeta.properties
  const properties = {
    name,
    ...(has.namespaces && { namespace }),
    ...others,
    ...(has.apply && { managedFields }),
  }
  const schemas = {
    ObjectMeta: { ...objectMeta, properties },
    OwnerReference: ownerReference,
    ...(has.apply && { ManagedFieldsEntry: managedFieldsEntry }),
    ListMeta: listMeta,
    ...errorSchemas,
    DeleteOptions: { ...deleteOptions, ...ofKind('DeleteOptions', everywhere) },
    Preconditions: preconditions,
    WatchEvent: { ...watchEvent, ...ofKind('WatchEvent', everywhere) },
    Table: table,
    PartialObjectMetadata: partialMetadata,
    PartialObjectMetadataList: partialMetadataList,
    Patch: patch,
    JSONPatch: jsonPatch,
  }
  return named(schemas)
}

const errorSchemas = {
  Status: { ...status, 'x-kubernetes-group-version-kind': [{ group: '', version: 'v1', kind: 'Status' }] },
  StatusDetails: statusDetails,
  StatusCause: statusCause,
}

/** Returns the schemas that a document of routes alone has: those of errors. */
export function statusSchemas(): JsonObject {
  return named(errorSchemas)
}

function named(schemas: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [metaName(name), schema]))
}
