import type { UserInfo } from '@setpoint/controller-runtime'
import { type Fields, recordOf } from '../../kubernetes/index.ts'
import type {
  AccessAnswer,
  AccessQuestion,
  Budget,
  CelValue,
  Program,
  ServedVersion,
} from '../../model/index.ts'
import { type Authorizer, serviceAccountUser, systemGroups } from '../../security/index.ts'
import { admissionRequestOf } from './admission-request.ts'
import type { AdmissionAttributes } from './attributes.ts'
import { cel } from './cel-environment.ts'
import { celOf } from './cel-values.ts'
import type { NamespaceSource } from './selection.ts'

/** What the evaluation of expressions needs beside the write. */
export interface EvaluationSources {
  readonly namespaces: NamespaceSource
  readonly authorizer: Pick<Authorizer, 'grantOf'>
}

/** The values of the variables of an expression. */
export type Variables = Readonly<Record<string, CelValue | undefined>>

/** The value of an expression, or why it has none. */
export type Outcome = { readonly value: CelValue; readonly error?: undefined } | { readonly error: string }

/**
 * Returns the variables of all expressions about a write, but `params` and `variables`.
 * @param version the one in which the rules match the write
 * @throws ConversionError; ApiError 404 if the namespace of the object does not exist
 */
export async function variablesOf(
  attributes: AdmissionAttributes,
  version: ServedVersion,
  { namespaces, authorizer }: EvaluationSources,
): Promise<Variables> {
  const { object, old } = await attributes.in(version)
  const { namespace, isNamespace } = attributes
  const hasNamespace = namespace !== '' && !isNamespace
  return {
    object: celOf(object),
    oldObject: celOf(old),
    request: celOf(admissionRequestOf(attributes, version)),
    namespaceObject: hasNamespace ? celOf(namespaceObject(await namespaces.get(namespace))) : null,
    authorizer: authorizerOf(attributes, authorizer),
  }
}

/** Returns what an expression sees of a namespace, as in Kubernetes. */
function namespaceObject({ metadata, spec, status }: Fields): object {
  const { version: _version, managedFields: _fields, ownerReferences: _owners, ...shown } = recordOf(metadata)
  return { metadata: shown, spec, status }
}

function authorizerOf(
  { request, version, resource, subresource, namespace, name }: AdmissionAttributes,
  authorizer: EvaluationSources['authorizer'],
): CelValue {
  const { Authorizer } = cel()
  const ask = (question: AccessQuestion): AccessAnswer => {
    try {
      const grant = authorizer.grantOf(userOf(question, request.user), question.verb, targetOf(question))
      return { isAllowed: grant !== undefined, reason: grant?.reason ?? '', error: '' }
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      return { isAllowed: false, reason: '', error: message }
    }
  }
  return new Authorizer(ask, { group: version.group, resource, subresource, namespace, name })
}

function userOf({ account }: AccessQuestion, user: UserInfo): UserInfo {
  if (account === undefined) return user
  const { authenticated, serviceAccounts } = systemGroups
  const groups = [serviceAccounts, `${serviceAccounts}:${account.namespace}`, authenticated]
  return { name: serviceAccountUser(account), groups }
}

function targetOf({ target }: AccessQuestion): Parameters<Authorizer['grantOf']>[2] {
  if (typeof target === 'string') return target.startsWith('/') ? target : `/${target}`
  const { group, resource: plural, subresource, namespace, name } = target
  return {
    group,
    plural,
    subresource: subresource || undefined,
    namespace: namespace || undefined,
    name: name || undefined,
  }
}

/** Evaluates an expression. @throws BudgetExceededError */
export function evaluate(
  { expression, program, problem }: Expression,
  variables: Variables,
  budget: Budget,
): Outcome {
  if (program === undefined) return { error: `compilation error: ${problem}` }
  try {
    return { value: program.evaluate(variables, budget) }
  } catch (error) {
    if (!(error instanceof cel().CelEvaluationError)) throw error
    return { error: `expression '${expression}' resulted in error: ${error.message}` }
  }
}

/** An expression that was compiled, or why it was not. */
export interface Expression {
  readonly expression: string
  readonly program?: Program
  readonly problem?: string
}
