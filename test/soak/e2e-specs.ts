/**
 * The end-to-end specs of Kubernetes 1.34 that use only kinds which Setpoint has. They are in the packages that
 * `test/clients/e2e` imports. All others there need pods, nodes, definitions or other kinds; are skipped by every
 * kube-apiserver with default settings; or look for the names of kube-apiserver's own health checks.
 */

/** The names of specs by the text of their container. */
type Specs = Readonly<Record<string, readonly string[]>>

/** Specs that fail, and why. */
export interface SpecDifference {
  /** A sentence in a page of `docs/reference`. */
  readonly says: string
  readonly page: string
  /** A part of the message with which they fail. */
  readonly failure: string
  readonly specs: Specs
}

const streaming = '[sig-api-machinery] API Streaming (aka. WatchList) [FeatureGate:WatchList] [Beta] [Serial]'

/** Specs that pass. */
export const passing: Specs = {
  [streaming]: [
    'should be requested by informers when WatchListClient is enabled',
    'server supports sending resources in Table format',
    "reflector doesn't support receiving resources as Tables",
  ],
  '[sig-api-machinery] Discovery': ['should validate PreferredVersion for each APIGroup [Conformance]'],
  '[sig-api-machinery] Namespaces [Serial]': [
    'should delete fast enough (90 percent of 100 namespaces in 150 seconds)',
    'should always delete fast (ALL of 100 namespaces in 150 seconds) [Feature:ComprehensiveNamespaceDraining]',
    'should patch a Namespace [Conformance]',
    'should apply changes to a namespace status [Conformance]',
    'should apply an update to a Namespace [Conformance]',
    'should apply a finalizer to a Namespace [Conformance]',
  ],
  '[sig-api-machinery] OpenAPIV3': ['should round trip OpenAPI V3 for all built-in group versions'],
  '[sig-api-machinery] ResourceQuota': [
    'should create a ResourceQuota and ensure its status is promptly calculated. [Conformance]',
    'should create a ResourceQuota and capture the life of a secret. [Conformance]',
    'should create a ResourceQuota and capture the life of a configMap. [Conformance]',
    'should be able to update and delete ResourceQuota. [Conformance]',
    'should manage the lifecycle of a ResourceQuota [Conformance]',
    'should apply changes to a resourcequota status [Conformance]',
  ],
  '[sig-api-machinery] Server request timeout': [
    'should return HTTP status code 400 if the user specifies an invalid timeout in the request URL',
    'the request should be served with a default timeout if the specified timeout in the request URL exceeds maximum allowed',
    'default timeout should be used if the specified timeout in the request URL is 0s',
  ],
  '[sig-api-machinery] Servers with support for Table transformation': [
    'should return a 406 for a backend which does not implement metadata [Conformance]',
  ],
  '[sig-api-machinery] Watchers': [
    'should observe add, update, and delete watch notifications on configmaps [Conformance]',
    'should be able to start watching from a specific resource version [Conformance]',
    'should be able to restart watching from the last resource version observed by the previous watch [Conformance]',
    'should observe an object deletion if it stops meeting the requirements of the selector [Conformance]',
    'should receive events on concurrent watches in same order [Conformance]',
  ],
  '[sig-api-machinery] client-go should negotiate': [
    'watch and report errors with accept "application/json"',
    'watch and report errors with accept "application/vnd.kubernetes.protobuf"',
    'watch and report errors with accept "application/vnd.kubernetes.protobuf,application/json"',
    'watch and report errors with accept "application/json,application/vnd.kubernetes.protobuf"',
  ],
  '[sig-api-machinery] server version': ['should find the server version [Conformance]'],
  '[sig-auth] SelfSubjectReview': [
    'testing SSR in different API groups authentication/v1',
    'should support SelfSubjectReview API operations',
  ],
  '[sig-auth] ServiceAccounts': [
    'should run through the lifecycle of a ServiceAccount [Conformance]',
    'should update a ServiceAccount [Conformance]',
    'should create a serviceAccountToken and ensure a successful TokenReview [Conformance]',
  ],
  '[sig-auth] SubjectReview': ['should support SubjectReview API operations [Conformance]'],
  '[sig-cli] Kubectl client': [
    'Kubectl api-versions should check if v1 is in available api versions [Conformance]',
    'Kubectl prune with applyset should apply and prune objects',
    'Kubectl version should check is all data is printed [Conformance]',
    'Proxy server should support proxy with --port 0 [Conformance]',
    'Proxy server should support --unix-socket=/path [Conformance]',
    'Kubectl create quota should create a quota without scopes',
    'Kubectl create quota should reject quota with invalid scopes',
    'kubectl subresource flag should not be used in a bulk GET',
  ],
  '[sig-instrumentation] Events': [
    'should manage the lifecycle of an event [Conformance]',
    'should delete a collection of events [Conformance]',
  ],
  '[sig-instrumentation] Events API': [
    'should ensure that an event can be fetched, patched, deleted, and listed [Conformance]',
    'should delete a collection of events [Conformance]',
  ],
  '[sig-node] ConfigMap': [
    'should fail to create ConfigMap with empty key [Conformance]',
    'should update ConfigMap successfully',
    'should run through a ConfigMap lifecycle [Conformance]',
  ],
  '[sig-node] Lease': ['lease API should be available [Conformance]'],
  '[sig-node] Secrets': [
    'should fail to create secret due to empty secret key [Conformance]',
    'should patch a secret [Conformance]',
  ],
}

/** Specs that fail, with the reasons. */
export const differing: readonly SpecDifference[] = [
  {
    says: 'A list without `limit` begins with the newest object.',
    page: 'kubernetes-clients.md',
    failure: 'data received via list must match the added data',
    specs: {
      [streaming]: [
        "should NOT be requested by client-go's List method when WatchListClient is enabled",
        "should NOT be requested by dynamic client's List method when WatchListClient is enabled",
        "should NOT be requested by metadata client's List method when WatchListClient is enabled",
      ],
    },
  },
  {
    says: 'The metadata client of client-go accepts both, so the items of its lists have an `apiVersion` and a `kind`',
    page: 'kubernetes-clients.md',
    failure: 'context deadline exceeded',
    specs: { [streaming]: ['should be requested by metadatainformer when WatchListClient is enabled'] },
  },
  {
    says: '`scopes` and `scopeSelector` are refused with 422, because they select pods.',
    page: 'kubernetes-clients.md',
    failure: 'spec.scopes: must be absent',
    specs: { '[sig-cli] Kubectl client': ['Kubectl create quota should create a quota with scopes'] },
  },
  {
    says: 'none is created for a namespace',
    page: 'kubernetes-clients.md',
    failure: 'serviceaccounts "default" not found',
    specs: {
      '[sig-auth] ServiceAccounts': ['no secret-based service account token should be auto-generated'],
    },
  },
  {
    says: 'no `kube-root-ca.crt`, which pods use, is created for a namespace',
    page: 'kubernetes-clients.md',
    failure: 'timed out waiting for the condition',
    specs: {
      '[sig-auth] ServiceAccounts': [
        'should guarantee kube-root-ca.crt exist in any namespace [Conformance]',
      ],
    },
  },
]

/** Returns their full names. */
export function namesOf(specs: Specs): string[] {
  return Object.entries(specs).flatMap(([container, names]) => names.map(name => `${container} ${name}`))
}
