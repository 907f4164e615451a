import type { Model } from '@setpoint/controller-runtime/api'
import type { PolicyRule } from '../../security/index.ts'
import { controllersGroup, controllersSubjects } from './controllers-account.ts'
import { bootstrappingLabels, type DefaultObject } from './default-object.ts'
import { rbacGroup } from './read-roles.ts'

/** Present objects are completed as long as this annotation is `true`, as in Kubernetes. */
export const autoupdateAnnotation = 'rbac.authorization.kubernetes.io/autoupdate'

const read = ['get', 'list', 'watch'] as const
const write = ['create', 'delete', 'deletecollection', 'patch', 'update'] as const
const core = ['']

function role(name: string, rules: readonly PolicyRule[], labels = {}): DefaultObject {
  return { name, labels: { ...bootstrappingLabels, ...labels }, content: { rules } }
}

function aggregateTo(name: string): Readonly<Record<string, string>> {
  return { [`${rbacGroup}/aggregate-to-${name}`]: 'true' }
}

/** @param rules those of the default roles that it selects by `aggregateTo(part)`, in the order of their names */
function aggregated(name: string, rules: readonly PolicyRule[], part: string, labels = {}): DefaultObject {
  const aggregationRule = { clusterRoleSelectors: [{ matchLabels: aggregateTo(part) }] }
  return { name, labels: { ...bootstrappingLabels, ...labels }, content: { aggregationRule, rules } }
}

const viewRules: readonly PolicyRule[] = [
  { verbs: read, apiGroups: core, resources: ['configmaps', 'events', 'namespaces', 'serviceaccounts'] },
  { verbs: read, apiGroups: core, resources: ['resourcequotas', 'resourcequotas/status'] },
  { verbs: read, apiGroups: ['events.k8s.io'], resources: ['events'] },
]

const editRules: readonly PolicyRule[] = [
  { verbs: [...read, ...write], apiGroups: core, resources: ['secrets'] },
  { verbs: [...write], apiGroups: core, resources: ['configmaps', 'serviceaccounts'] },
  { verbs: ['impersonate'], apiGroups: core, resources: ['serviceaccounts'] },
  { verbs: ['create'], apiGroups: core, resources: ['serviceaccounts/token'] },
  { verbs: [...read, ...write], apiGroups: ['coordination.k8s.io'], resources: ['leases'] },
]

const adminRules: readonly PolicyRule[] = [
  { verbs: [...read, ...write], apiGroups: [rbacGroup], resources: ['roles', 'rolebindings'] },
  { verbs: ['create'], apiGroups: ['authorization.k8s.io'], resources: ['localsubjectaccessreviews'] },
]

/**
 * What a process with controllers needs besides the kinds of its plugins: the rules of Kubernetes' garbage collector,
 * and of its leader election and events. Without the verbs escalate and bind, its writes of roles grant nothing new.
 */
const controllerRules: readonly PolicyRule[] = [
  { verbs: [...read, 'delete', 'patch', 'update'], apiGroups: ['*'], resources: ['*'] },
  { verbs: ['create'], apiGroups: core, resources: ['events'] },
  { verbs: ['create'], apiGroups: ['coordination.k8s.io'], resources: ['leases'] },
  // The collector's group depends on the reserved domain.
  { verbs: ['create'], apiGroups: ['*'], resources: ['orphanrecords'] },
]

/** The ClusterRoles of every server, as in Kubernetes where it has them. */
export const defaultClusterRoles: readonly DefaultObject[] = [
  role('cluster-admin', [
    { verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
    { verbs: ['*'], nonResourceURLs: ['*'] },
  ]),
  role('system:discovery', [
    {
      verbs: ['get'],
      nonResourceURLs: [
        '/api',
        '/api/*',
        '/apis',
        '/apis/*',
        '/openapi',
        '/openapi/*',
        '/version',
        '/version/',
      ],
    },
    { verbs: ['get'], nonResourceURLs: ['/healthz', '/livez', '/readyz'] },
  ]),
  role('system:basic-user', [
    {
      verbs: ['create'],
      apiGroups: ['authorization.k8s.io'],
      resources: ['selfsubjectaccessreviews', 'selfsubjectrulesreviews'],
    },
    { verbs: ['create'], apiGroups: ['authentication.k8s.io'], resources: ['selfsubjectreviews'] },
  ]),
  role('system:service-account-issuer-discovery', [
    {
      verbs: ['get'],
      nonResourceURLs: [
        '/.well-known/openid-configuration',
        '/.well-known/openid-configuration/',
        '/openid/v1/jwks',
        '/openid/v1/jwks/',
      ],
    },
  ]),
  role('setpoint:metrics-reader', [{ verbs: ['get'], nonResourceURLs: ['/metrics'] }]),
  role('system:aggregate-to-controllers', controllerRules, aggregateTo('controllers')),
  aggregated(controllersGroup, controllerRules, 'controllers'),
  role('system:aggregate-to-view', viewRules, aggregateTo('view')),
  role('system:aggregate-to-edit', editRules, aggregateTo('edit')),
  role('system:aggregate-to-admin', adminRules, aggregateTo('admin')),
  aggregated('view', viewRules, 'view', aggregateTo('edit')),
  aggregated('edit', [...editRules, ...viewRules], 'edit', aggregateTo('admin')),
  aggregated('admin', [...adminRules, ...editRules, ...viewRules], 'admin'),
]

const group = (name: string) => ({ apiGroup: rbacGroup, kind: 'Group', name })

function binding(name: string, ...subjects: Readonly<Record<string, string>>[]): DefaultObject {
  return {
    name,
    labels: bootstrappingLabels,
    content: {
      roleRef: { apiGroup: rbacGroup, kind: 'ClusterRole', name },
      subjects,
    },
  }
}

/**
 * The ClusterRoleBindings of every server: what every authenticated user may do, and groups for scrapers and
 * controllers.
 */
export const defaultClusterRoleBindings: readonly DefaultObject[] = [
  binding('system:basic-user', group('system:authenticated')),
  binding('system:discovery', group('system:authenticated')),
  binding('system:service-account-issuer-discovery', group('system:serviceaccounts')),
  binding('setpoint:metrics-reader', group('setpoint:metrics-readers')),
  binding(controllersGroup, ...controllersSubjects),
]

/**
 * The ClusterRoles of a plugin's kinds: `<plugin>-view` and `<plugin>-edit`, parts of `view` and `edit`, and
 * `<plugin>-controllers` for its controllers in another process.
 */
export function rolesOfPlugin(
  plugin: string,
  models: readonly Pick<Model, 'group' | 'plural' | 'sensitive'>[],
): DefaultObject[] {
  const of = (
    name: 'view' | 'edit' | 'controllers',
    verbs: readonly string[],
    kinds: typeof models,
  ): DefaultObject => ({
    name: `${plugin}-${name}`,
    labels: aggregateTo(name),
    content: {
      rules: [...new Set(kinds.map(({ group }) => group))].map(group => ({
        verbs,
        apiGroups: [group],
        resources: kinds.filter(model => model.group === group).map(({ plural }) => plural),
      })),
    },
  })
  const plain = models.filter(({ sensitive }) => !sensitive)
  return [
    ...(plain.length > 0 ? [of('view', read, plain)] : []),
    ...(models.length > 0
      ? [of('edit', [...read, ...write], models), of('controllers', ['create'], models)]
      : []),
  ]
}

/**
 * Returns the ClusterRole that a plugin asks for, and if it is granted, its binding, both named as the plugin's user.
 * Only a granted role is completed when the plugin asks for more: the operator has seen only what it asked for before.
 */
export function grantOfPlugin(
  name: string,
  rules: readonly PolicyRule[],
  isGranted: boolean,
): { readonly role: DefaultObject; readonly binding: DefaultObject | undefined } {
  const completed = isGranted ? 'always' : 'never'
  const roleRef = { apiGroup: rbacGroup, kind: 'ClusterRole', name }
  const subjects = [
    { apiGroup: rbacGroup, kind: 'User', name },
    // The plugin's controllers in another process.
    ...controllersSubjects,
  ]
  return {
    role: { name, labels: {}, content: { rules }, completed },
    binding: isGranted ? { name, labels: {}, content: { roleRef, subjects }, completed } : undefined,
  }
}
