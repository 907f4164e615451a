import type { Api } from './api.ts'
import { arrayOf, type Fields, fieldsOf, isFields, textOf } from './json.ts'

/** A method of a path, as the OpenAPI documents of a server describe it. */
export interface Operation {
  /** In upper case. */
  readonly method: string
  /** With the names of its parameters in braces. */
  readonly path: string
  /** The query parameters by name, each with an example of its value. */
  readonly query: ReadonlyMap<string, string>
  /** By content type. */
  readonly bodies: ReadonlyMap<string, BodyDescription>
}

export interface BodyDescription {
  /** Without references. */
  readonly schema: Fields
  /** Undefined without an example. */
  readonly example: unknown
}

/** Levels of a schema below which references are not followed: some schemas contain themselves. */
const depth = 8

/** Returns what the OpenAPI documents of a server have: the routes of all kinds and plugins. */
export async function operationsOf(api: Api): Promise<readonly Operation[]> {
  const operations: Operation[] = []
  for (const entry of Object.values(fieldsOf(fieldsOf((await api.get('/openapi/v3')).body).paths))) {
    const document = fieldsOf((await api.get(textOf(fieldsOf(entry).serverRelativeURL))).body)
    for (const [path, item] of Object.entries(fieldsOf(document.paths))) {
      const { parameters: shared = [], ...methods } = fieldsOf(item)
      const { requestBody: whole = {} } = fieldsOf(methods.put ?? {})
      const object = bodiesOf(resolved(whole, document), document).get('application/json')
      for (const [method, value] of Object.entries(methods)) {
        const { parameters: own = [], requestBody } = fieldsOf(value)
        const parameters = [...arrayOf(shared), ...arrayOf(own)].map(each => resolved(each, document))
        operations.push({
          method: method.toUpperCase(),
          path,
          query: new Map(parameters.filter(each => each.in === 'query').map(parameterOf)),
          bodies: patching(bodiesOf(resolved(requestBody ?? {}, document), document), object),
        })
      }
    }
  }
  return operations
}

function parameterOf({ name, example = 'a' }: Fields): [name: string, value: string] {
  return [textOf(name), String(Array.isArray(example) ? example[0] : example)]
}

function bodiesOf({ content = {} }: Fields, document: Fields): Map<string, BodyDescription> {
  return new Map(
    Object.entries(fieldsOf(content)).map(([type, media]) => {
      const { schema = {}, example, examples = {} } = fieldsOf(media)
      const [first] = Object.values(fieldsOf(examples))
      return [
        type,
        {
          schema: fieldsOf(withoutReferences(schema, document, depth)),
          example: first === undefined ? example : resolved(first, document).value,
        },
      ]
    }),
  )
}

/** Describes patches that look like the object by its fields. Their own schemas have none. */
function patching(
  bodies: ReadonlyMap<string, BodyDescription>,
  object: BodyDescription | undefined,
): ReadonlyMap<string, BodyDescription> {
  if (object === undefined) return bodies
  const isLike = (type: string) => /merge-patch|apply-patch/.test(type)
  return new Map([...bodies].map(([type, own]) => [type, isLike(type) ? object : own]))
}

/** Follows a reference such as `#/components/parameters/page`. */
function resolved(value: unknown, document: Fields): Fields {
  const { $ref, ...rest } = fieldsOf(value)
  if ($ref === undefined) return rest
  const target = textOf($ref)
    .slice('#/'.length)
    .split('/')
    .reduce((at: unknown, step) => fieldsOf(at)[step], document)
  return fieldsOf(target)
}

function withoutReferences(value: unknown, document: Fields, levels: number): unknown {
  if (Array.isArray(value)) return value.map(each => withoutReferences(each, document, levels))
  if (!isFields(value)) return value
  // A description beside a reference is an `allOf` with one item.
  const [only] = arrayOf(value.allOf ?? [])
  const reference = isFields(only) ? only : value
  if (reference.$ref !== undefined && levels === 0) return {}
  const fields = reference.$ref === undefined ? value : resolved(reference, document)
  const below = reference.$ref === undefined ? levels : levels - 1
  return Object.fromEntries(
    Object.entries(fields).map(([key, each]) => [key, withoutReferences(each, document, below)]),
  )
}

/** Returns an object that may be created. A kind whose document has no example may need one below. */
export function exampleOf({ schema, example }: BodyDescription): Fields {
  const [named = {}] = arrayOf(schema['x-kubernetes-group-version-kind'] ?? []).map(fieldsOf)
  const { group = '', version, kind } = named
  if (kind === undefined) return isFields(example) ? example : {}
  const apiVersion = group === '' ? version : `${group}/${version}`
  return { apiVersion, kind, metadata: { name: 'example' }, ...(example ?? {}), ...required[String(kind)] }
}

const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' }
const review = { spec: { user: 'a', nonResourceAttributes: { path: '/a', verb: 'get' } } }

/** What kinds require that have no complete example in their document. */
const required: Readonly<Record<string, Fields>> = {
  BoatStatus: { spec: { code: '1' } },
  Certificate: { spec: { commonName: 'a.example.com', issuerRef: { name: 'example' } } },
  ClusterRoleBinding: { roleRef },
  Event: {
    ...{ involvedObject: { namespace: 'default' }, regarding: { namespace: 'default' } },
    ...{ eventTime: '2026-01-01T00:00:00.000000Z', type: 'Normal', reason: 'a', action: 'a' },
    ...{ reportingController: 'example.com/a', reportingInstance: 'a' },
  },
  Issuer: { spec: { selfSigned: {} } },
  Probe: { spec: { url: 'http://192.0.2.1/' } },
  RoleBinding: { roleRef },
  SelfSubjectAccessReview: { spec: { nonResourceAttributes: { path: '/a', verb: 'get' } } },
  SelfSubjectRulesReview: { spec: { namespace: 'default' } },
  SubjectAccessReview: review,
  Subscription: {
    spec: {
      ...{ kinds: [{ apiVersion: 'v1', kind: 'ConfigMap' }], url: 'http://192.0.2.1/' },
      signingKey: 'a signing key that is long enough',
    },
  },
  TokenReview: { spec: { token: 'a' } },
}
