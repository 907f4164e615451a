import {
  type HookObject,
  type HookViolation,
  isRecord,
  type ValidateContext,
} from '@setpoint/controller-runtime/api'
import { Secret } from '@setpoint/controller-runtime/internal'
import { type BareObject, formatPath } from '../../model/index.ts'
import { recordOf } from '../fields.ts'
import type { BuiltInKind } from './built-in-kind.ts'
import { ageColumn } from './columns.ts'
import {
  bytesOfBase64,
  countOf,
  joinBase64,
  problemsOfImmutable,
  problemsOfKeys,
  problemsOfSize,
} from './data.ts'

const opaque = 'Opaque'

/** The annotation that names the account of a `kubernetes.io/service-account-token`. */
const accountAnnotation = 'kubernetes.io/service-account.name'

/** The only type whose value must not be empty. */
const sshAuth = 'kubernetes.io/ssh-auth'

/** The keys that secrets of a type must have. */
const requiredKeys: Readonly<Record<string, readonly string[]>> = {
  'kubernetes.io/dockercfg': ['.dockercfg'],
  'kubernetes.io/dockerconfigjson': ['.dockerconfigjson'],
  [sshAuth]: ['ssh-privatekey'],
  'kubernetes.io/tls': ['tls.crt', 'tls.key'],
}

/** The keys whose values must be JSON objects. */
const jsonKeys: Readonly<Record<string, string>> = {
  'kubernetes.io/dockercfg': '.dockercfg',
  'kubernetes.io/dockerconfigjson': '.dockerconfigjson',
}

/** `Secret` of `v1`: confidential bytes. Violations never contain values. */
export const secret: BuiltInKind = {
  model: {
    ...Secret,
    validate(object: HookObject<Secret>, { previous }: ValidateContext<Secret>) {
      return [
        ...problemsOfKeys(object, 'data'),
        ...problemsOfSize([{ map: object.data, bytesOf: bytesOfBase64 }]),
        ...problemsOfType(object.type ?? opaque, recordOf(object.data), object.metadata.annotations ?? {}),
        ...(previous !== undefined && previous.type !== object.type
          ? [{ field: 'type', message: 'field is immutable' }]
          : []),
        ...problemsOfImmutable(object, previous, ['data']),
      ]
    },
  },
  rules: {
    columns: [
      { name: 'Type', type: 'string', description: 'What the data is for.', cell: ({ type }) => type },
      {
        name: 'Data',
        type: 'integer',
        description: 'The number of values.',
        cell: ({ data }) => countOf(data),
      },
      ageColumn,
    ],
    created: draft => complete(draft, opaque),
    updated: (draft, previous) => complete(draft, previous.type ?? opaque),
  },
}

/** Merges `stringData` into `data`. Leaves what is not a map of texts to the schema. */
function complete(draft: BareObject, type: unknown): void {
  if (draft.type === undefined || draft.type === '') draft.type = type
  joinBase64(draft, 'data')
  const { stringData, data } = draft
  if (stringData === undefined) return
  if (!isRecord(stringData) || (data !== undefined && !isRecord(data))) return
  const texts = Object.entries(stringData)
  if (!texts.every((entry): entry is [string, string] => typeof entry[1] === 'string')) return
  const added = texts.map(([key, text]) => [key, Buffer.from(text).toString('base64')])
  delete draft.stringData
  draft.data = { ...data, ...Object.fromEntries(added) }
}

type Data = Readonly<Record<string, unknown>>

function problemsOfType(type: string, data: Data, annotations: Data): HookViolation[] {
  const missing = (path: readonly string[]): HookViolation => ({
    field: formatPath(path),
    reason: 'FieldValueRequired',
    message: `is required in a secret of type ${type}`,
  })
  if (type === 'kubernetes.io/service-account-token')
    return annotations[accountAnnotation] ? [] : [missing(['metadata', 'annotations', accountAnnotation])]
  if (type === 'kubernetes.io/basic-auth')
    return 'username' in data || 'password' in data
      ? []
      : [missing(['data', 'username']), missing(['data', 'password'])]
  const required = Object.hasOwn(requiredKeys, type) ? (requiredKeys[type] ?? []) : []
  const absent = required
    .filter(key => (type === sshAuth ? !data[key] : !(key in data)))
    .map(key => missing(['data', key]))
  const jsonKey = Object.hasOwn(jsonKeys, type) ? jsonKeys[type] : undefined
  if (absent.length > 0 || jsonKey === undefined || isJsonObject(data[jsonKey])) return absent
  return [{ field: formatPath(['data', jsonKey]), message: 'must be a JSON object, in base64' }]
}

/** As in Go, null is one, too. */
function isJsonObject(text: unknown): boolean {
  try {
    const value: unknown = JSON.parse(Buffer.from(String(text), 'base64').toString())
    return isRecord(value) || value === null
  } catch {
    return false
  }
}
