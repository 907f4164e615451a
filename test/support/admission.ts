import { type Answer, type Api, objectOf } from './api.ts'
import type { Fields } from './json.ts'

/** The kinds of `admissionregistration.k8s.io/v1`. */
export const admissionVersion = 'admissionregistration.k8s.io/v1'
const root = `/apis/${admissionVersion}`

const plurals = {
  MutatingWebhookConfiguration: 'mutatingwebhookconfigurations',
  ValidatingWebhookConfiguration: 'validatingwebhookconfigurations',
  ValidatingAdmissionPolicy: 'validatingadmissionpolicies',
  ValidatingAdmissionPolicyBinding: 'validatingadmissionpolicybindings',
} as const
type Kind = keyof typeof plurals

export function admissionPath(kind: Kind, name?: string): string {
  return `${root}/${plurals[kind]}${name === undefined ? '' : `/${name}`}`
}

/** Sends a new object of one of the kinds. */
export function send(api: Api, kind: Kind, name: string, content: object): Promise<Answer> {
  return api.post(admissionPath(kind), { apiVersion: admissionVersion, kind, metadata: { name }, ...content })
}

/** Creates an object of one of the kinds. @throws Error if it is refused */
export async function configure(api: Api, kind: Kind, name: string, content: object): Promise<Fields> {
  const answer = await send(api, kind, name, content)
  if (answer.status !== 201) throw new Error(`${kind} ${name}: ${answer.status} ${answer.text}`)
  return objectOf({ ...answer }, 201).raw
}

/** Removes all configurations. */
export async function unconfigure(api: Api): Promise<void> {
  for (const plural of Object.values(plurals)) await api.delete(`${root}/${plural}`)
}

/** All writes to resources but deletions. */
export function ruleFor(group: string, ...resources: string[]): Fields {
  return { operations: ['CREATE', 'UPDATE'], apiGroups: [group], apiVersions: ['*'], resources }
}

/** All writes to resources. */
export function everyRule(group: string, ...resources: string[]): Fields {
  return { ...ruleFor(group, ...resources), operations: ['*'] }
}

/** Creates a policy for a rule, and a binding of the same name. */
export async function bindPolicy(
  api: Api,
  name: string,
  rule: Fields,
  spec: object,
  binding: object = {},
): Promise<void> {
  await configure(api, 'ValidatingAdmissionPolicy', name, {
    spec: { matchConstraints: { resourceRules: [rule] }, ...spec },
  })
  await configure(api, 'ValidatingAdmissionPolicyBinding', name, {
    spec: { policyName: name, validationActions: ['Deny'], ...binding },
  })
}

/** Returns the texts of the Warning headers. */
export function warningsOf({ headers }: Answer): string[] {
  const text = headers.get('warning')
  if (text === null) return []
  return [...text.matchAll(/299 - ("(?:[^"\\]|\\.)*")/g)].map(([, quoted = '""']) => JSON.parse(quoted))
}
