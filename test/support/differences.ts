/**
 * The responses that differ from the recorded ones. Each key is a scenario and a request, its value Setpoint's status.
 */

export interface Difference {
  /** A sentence in a page of `docs/reference`. */
  readonly says: string
  readonly page: string
  readonly responses: Readonly<Record<string, number>>
}

export const differences: readonly Difference[] = [
  {
    says: 'The server ignores your values of the fields that it sets.',
    page: 'api.md',
    responses: {
      'metadata is applied: server-owned fields are ignored': 200,
      'the server owns some of the metadata: a creation with a version': 201,
      'the server owns some of the metadata: a patch that sets them': 200,
    },
  },
  {
    says: 'Unknown fields are kept, except in the metadata.',
    page: 'api.md',
    responses: {
      'an apply is validated: an unknown field: Warn': 200,
      'an apply is validated: an unknown field of the object: Warn': 200,
      'an apply is validated: an unknown field: Ignore': 200,
      'an apply is validated: an unknown field of the object: Ignore': 200,
      'fields are checked as fieldValidation says: unknown fields: Ignore': 201,
      'fields are checked as fieldValidation says: unknown fields: Warn': 201,
      'fields are checked as fieldValidation says: unknown fields: ': 201,
      'fields are checked as fieldValidation says: a merge patch, with a warning': 200,
      'ConfigMaps are applied: an unknown field': 201,
      'ConfigMap: an unknown field': 201,
      'Lease: an unknown field': 201,
      'Role and ClusterRole: an unknown field': 201,
    },
  },
  {
    says: 'Without a version it replaces any version.',
    page: 'api.md',
    responses: {
      'an object is replaced: without a version': 200,
      'versions and uids in the body are preconditions: an empty version': 200,
      'merge patches: a null version': 200,
      'merge patches: an empty version': 200,
      'Lease: by PUT': 200,
    },
  },
  {
    says: 'If a key is duplicated, the last one counts.',
    page: 'api.md',
    responses: {
      'bodies are YAML or JSON: a duplicate key in JSON': 200,
    },
  },
  {
    says: 'A later DELETE does not change a deletion that has begun.',
    page: 'deletion.md',
    responses: {
      'dependents are waited for: and in the background': 200,
    },
  },
  {
    says: 'read one, or watch it',
    page: 'api.md',
    responses: {
      'watches: of an object': 200,
    },
  },
  {
    says: 'A `uid`, `version` or `resourceVersion` in the metadata is a precondition (409).',
    page: 'server-side-apply.md',
    responses: {
      'versions and uids in the body are preconditions: a version, no object': 409,
      'versions and uids in the body are preconditions: another uid': 409,
    },
  },
  {
    says: 'Those entries own only status fields',
    page: 'server-side-apply.md',
    responses: {
      'metadata through /status: a label through /status': 200,
    },
  },
  {
    says: 'A write without the field, with null or with an empty or malformed list keeps the entries',
    page: 'server-side-apply.md',
    responses: {
      'managed fields are reset and replaced: no list': 200,
    },
  },
  {
    says: 'Text of the request is cut at 100 characters.',
    page: 'errors.md',
    responses: {
      'objects are created: a name of 254 characters': 422,
    },
  },
  {
    says: 'its last matching state with the version of the change',
    page: 'watch.md',
    responses: {
      'an object that is being deleted: the last gives it up': 200,
      'finalizers hold a deleted object: all removed': 200,
      'watches: released': 200,
    },
  },
  {
    says: 'A body of another kind or version is refused with 400.',
    page: 'kubernetes-clients.md',
    responses: {
      'the server owns some of the metadata: another kind': 400,
      'bodies must be objects of the path: another kind': 400,
      'the server owns some of the metadata: another version': 400,
      'bodies must be objects of the path: a list': 400,
    },
  },
  {
    says: 'A body may leave out `metadata.name`.',
    page: 'kubernetes-clients.md',
    responses: {
      'the body must match the path: no name': 201,
      'the server owns some of the metadata: no name': 200,
      'an object is replaced: no name': 200,
      'merge patches: the metadata removed': 200,
    },
  },
  {
    says: "A `uid` that is not the object's is refused with 409, and so is a version of 0.",
    page: 'kubernetes-clients.md',
    responses: {
      'the server owns some of the metadata: another uid': 409,
      'dryRun is All or nothing: a PUT': 409,
    },
  },
  {
    says: 'A parameter with an unknown value is refused with 400, and so are parameters that do not go together.',
    page: 'kubernetes-clients.md',
    responses: {
      'force is a boolean: force=maybe': 400,
      'fields are checked as fieldValidation says: unknown fields: Sometimes': 400,
      'fields are checked as fieldValidation says: duplicate fields: Sometimes': 400,
      'dryRun is All or nothing: another value': 400,
      'dryRun is All or nothing: a deletion with another value': 400,
      'lists come in chunks: a negative limit': 400,
      'lists come in chunks: continue and a match': 400,
      'lists are of a version: exactly 0': 400,
      'lists are of a version: a match alone': 400,
      'lists are of a version: an unknown match': 400,
      'lists are of a version: initial events': 400,
      'watches: an exact match': 400,
    },
  },
  {
    says: 'An empty parameter counts as absent.',
    page: 'kubernetes-clients.md',
    responses: {
      'dryRun is All or nothing: an empty value': 201,
    },
  },
  {
    says: 'A strict patch with unknown or duplicate fields is refused with 400.',
    page: 'kubernetes-clients.md',
    responses: {
      'fields are checked as fieldValidation says: a merge patch': 400,
      'fields are checked as fieldValidation says: a JSON patch': 400,
      'fields are checked as fieldValidation says: a merge patch with duplicates': 400,
    },
  },
  {
    says: '`generateName` counts at a creation only.',
    page: 'kubernetes-clients.md',
    responses: {
      'metadata is applied: generateName is applied': 200,
    },
  },
  {
    says: 'An apply can empty a map.',
    page: 'kubernetes-clients.md',
    responses: {
      'nulls and empty values are applied: and emptied': 200,
    },
  },
  {
    says: 'JSON patches follow RFC 6902 strictly, and a malformed one is refused with 400.',
    page: 'kubernetes-clients.md',
    responses: {
      'JSON patches: add at a negative index': 422,
      'JSON patches: add without a value': 400,
      'JSON patches: replace what is missing': 422,
      'JSON patches: copy what is missing': 422,
      'JSON patches: an unknown operation': 400,
      'JSON patches: no operation': 400,
      'JSON patches: no path': 400,
      'JSON patches: a path without a slash': 400,
      'JSON patches: the whole document': 400,
      'JSON patches: null': 400,
    },
  },
  {
    says: 'A method that a path does not have is refused with 405.',
    page: 'kubernetes-clients.md',
    responses: {
      'objects are created: without a namespace': 405,
      'collections are deleted: across all namespaces': 405,
      'other methods are refused: PUT of the collection': 405,
      'other methods are refused: PATCH of the collection': 405,
      'other methods are refused: POST of a name': 405,
    },
  },
  {
    says: 'In a custom kind, a field without a value does not equal the empty string.',
    page: 'kubernetes-clients.md',
    responses: {
      'lists are selected: a declared field that few lack': 200,
    },
  },
  {
    says: 'Watches need no `resourceVersionMatch`.',
    page: 'kubernetes-clients.md',
    responses: {
      'watches: initial events without a match': 200,
      'watches: a match without initial events': 200,
    },
  },
  {
    says: "Columns have types and descriptions of Setpoint's own.",
    page: 'kubernetes-clients.md',
    responses: {
      'tables: of ConfigMaps': 200,
      'tables: of a namespace': 200,
    },
  },
  {
    says: 'A request without credentials is refused with 401: there is no anonymous user.',
    page: 'kubernetes-clients.md',
    responses: {
      'nothing is allowed that no role allows: anonymous': 401,
    },
  },
  {
    says: 'Times may have any number of fractional digits.',
    page: 'kubernetes-clients.md',
    responses: {
      'Lease: a time of milliseconds': 201,
    },
  },
  {
    says: 'A token is for this API, whose audience is `setpoint/serviceaccount`',
    page: 'access.md',
    responses: {
      'ServiceAccount: token: a token': 201,
    },
  },
  {
    says: 'A `Lease` keeps `strategy`, and needs it for `preferredHolder`.',
    page: 'kubernetes-clients.md',
    responses: {
      'Lease: a strategy': 201,
      'Lease: a preferred holder without a strategy': 422,
    },
  },
  {
    says: 'Keys of annotations and names of finalizers may be any text.',
    page: 'kubernetes-clients.md',
    responses: {
      'metadata is validated: an invalid annotation': 201,
      'metadata is validated: an invalid finalizer': 201,
    },
  },
  {
    says: 'A Secret of the type `kubernetes.io/tls` gets no warning if its certificate and key are malformed',
    page: 'kubernetes-clients.md',
    responses: {
      'Secret: TLS': 201,
    },
  },
  {
    says: 'For a patch, too, its details name the object and the field.',
    page: 'kubernetes-clients.md',
    responses: {
      'ServiceAccount: an invalid field': 422,
    },
  },
  {
    says: 'The 404 for a binding of a missing role names the role.',
    page: 'kubernetes-clients.md',
    responses: {
      'roles do not escalate: a binding of a missing role': 404,
    },
  },
]
