import { checkLabelKey, checkSubdomain } from '@setpoint/controller-runtime/api'
import { type Fields, recordOf, recordsOf, textOf } from '../../../kubernetes/index.ts'
import type { CelType } from '../../../model/index.ts'
import { Findings } from '../../findings.ts'
import { problemOfLabel } from '../../label.ts'
import { inTurns } from '../../turns.ts'
import { cel, compileExpression, type ExpressionScope, problemOfExpression } from '../cel-environment.ts'
import { checkConditions } from './condition-problems.ts'
import { checkDistinct, checkOneOf } from './lists.ts'
import { checkMatchResources, failurePolicies } from './rule-problems.ts'

export const policyLimits = Object.freeze({
  /** Audit annotations of a policy, and characters of the expression of one, as in Kubernetes. */
  annotations: 20,
  annotationLength: 5 * 1024,
})

const reasons = ['Forbidden', 'Invalid', 'RequestEntityTooLarge']
const identifier = /^[_a-zA-Z][_a-zA-Z0-9]*$/
const reserved = new Set(
  `true false null in as break const continue else for function if import let loop package namespace return var void
  while`.split(/\s+/),
)

/** Finds what is wrong with a policy, as Kubernetes validates it. */
export async function findingsOfPolicy(spec: Fields, name: string): Promise<Findings> {
  const found = new Findings()
  await inTurns(checkPolicy(spec, name, found))
  return found
}

function* checkPolicy(spec: Fields, name: string, found: Findings): Generator<void> {
  const { paramKind, matchConstraints } = spec
  const hasParams = paramKind !== undefined
  checkOneOf(failurePolicies, textOf(spec.failurePolicy), 'spec.failurePolicy', found)
  if (hasParams) checkParamKind(recordOf(paramKind), 'spec.paramKind', found)
  if (matchConstraints === undefined) found.required('spec.matchConstraints')
  else checkConstraints(recordOf(matchConstraints), 'spec.matchConstraints', found)
  yield* checkConditions(spec.matchConditions, hasParams, 'spec.matchConditions', found)
  const variables = yield* readVariables(recordsOf(spec.variables), hasParams, found)
  const scope = { hasParams, hasAuthorizer: true, ...(variables.size > 0 && { variables }) }
  yield* checkExpressions(spec, name, scope, found)
}

function checkConstraints(constraints: Fields, place: string, found: Findings): void {
  checkMatchResources(constraints, place, found)
  if (recordsOf(constraints.resourceRules).length === 0) found.required(`${place}.resourceRules`)
}

/** Returns the types of the variables. A variable can use those before it. */
function* readVariables(
  declared: readonly Fields[],
  hasParams: boolean,
  found: Findings,
): Generator<void, ReadonlyMap<string, CelType>> {
  const variables = new Map<string, CelType>()
  for (const [at, variable] of declared.entries()) {
    yield
    const place = `spec.variables[${at}]`
    const [name, expression] = [textOf(variable.name), textOf(variable.expression)]
    if (name.trim() === '') found.required(`${place}.name`, 'name is not specified')
    else if (!identifier.test(name) || reserved.has(name))
      found.invalid(`${place}.name`, 'must be a valid CEL identifier')
    if (expression.trim() === '') {
      found.required(`${place}.expression`, 'expression is not specified')
      continue
    }
    const scope = { hasParams, hasAuthorizer: true, variables: new Map(variables) }
    const type = typeOf(expression, scope)
    if (typeof type === 'string') found.invalid(`${place}.expression`, type)
    // The expressions that use it are checked all the same.
    variables.set(name, typeof type === 'string' ? { kind: 'dyn' } : type)
  }
  return variables
}

/** Returns the type of an expression, or why it does not compile. */
function typeOf(expression: string, scope: ExpressionScope): CelType | string {
  try {
    return compileExpression(expression, scope).type
  } catch (error) {
    if (!(error instanceof cel().CelCompileError)) throw error
    return error.message
  }
}

function* checkExpressions(
  spec: Fields,
  name: string,
  scope: ExpressionScope,
  found: Findings,
): Generator<void> {
  const [validations, annotations] = [recordsOf(spec.validations), recordsOf(spec.auditAnnotations)]
  if (validations.length + annotations.length === 0)
    for (const field of ['validations', 'auditAnnotations'])
      found.required(`spec.${field}`, 'validations or auditAnnotations must contain at least one item')
  for (const [at, validation] of validations.entries()) {
    yield
    checkValidation(validation, `spec.validations[${at}]`, scope, found)
  }
  const { annotations: most } = policyLimits
  if (annotations.length > most)
    found.invalid('spec.auditAnnotations', `must not have more than ${most} auditAnnotations`)
  const place = (at: number) => `spec.auditAnnotations[${at}]`
  for (const [at, annotation] of annotations.entries()) {
    yield
    checkAnnotation(annotation, name, place(at), scope, found)
  }
  checkDistinct(
    annotations.map(({ key }) => textOf(key)),
    at => `${place(at)}.key`,
    found,
  )
}

function checkValidation(validation: Fields, place: string, scope: ExpressionScope, found: Findings): void {
  const { reason } = validation
  const [expression, message, messageExpression] = [
    textOf(validation.expression),
    textOf(validation.message),
    textOf(validation.messageExpression),
  ]
  const blank = 'must be non-empty if specified'
  if (expression.trim() === '') found.required(`${place}.expression`, 'expression is not specified')
  else found.addClause(`${place}.expression`, problemOfExpression(expression, scope, ['bool']))
  if (messageExpression !== '')
    found.addClause(
      `${place}.messageExpression`,
      messageExpression.trim() === ''
        ? blank
        : problemOfExpression(messageExpression, { ...scope, hasAuthorizer: false }, ['string']),
    )
  if (message !== '' && message.trim() === '') found.invalid(`${place}.message`, blank)
  if (/[\r\n]/.test(message.trim())) found.invalid(`${place}.message`, 'must not contain line breaks')
  if (reason !== undefined) checkOneOf(reasons, textOf(reason), `${place}.reason`, found)
}

function checkAnnotation(
  annotation: Fields,
  name: string,
  place: string,
  scope: ExpressionScope,
  found: Findings,
): void {
  const expression = textOf(annotation.valueExpression).trim()
  const { annotationLength } = policyLimits
  const field = `${place}.valueExpression`
  const key = textOf(annotation.key)
  if (name === '') found.invalid(`${place}.key`, 'requires metadata.name be non-empty')
  else {
    if (key === '') found.invalid(`${place}.key`, 'must not be empty')
    found.addClause(`${place}.key`, checkLabelKey(`${name}/${key}`))
  }
  if (expression === '') found.required(field, 'valueExpression is not specified')
  else if (expression.length > annotationLength)
    found.required(field, `must not exceed ${annotationLength} bytes in length`)
  else found.addClause(field, problemOfExpression(expression, scope, ['string', 'null']))
}

function checkParamKind({ apiVersion, kind }: Fields, place: string, found: Findings): void {
  checkApiVersion(textOf(apiVersion), `${place}.apiVersion`, found)
  const problem = problemOfLabel(textOf(kind).toLowerCase())
  if (textOf(kind) === '') found.required(`${place}.kind`)
  else if (problem !== undefined)
    found.invalid(`${place}.kind`, `may have mixed case, but otherwise ${problem}`)
}

function checkApiVersion(text: string, field: string, found: Findings): void {
  if (text === '') {
    found.required(field)
    return
  }
  const parts = text === '/' ? ['', ''] : text.split('/')
  if (parts.length > 2) {
    found.invalid(field, `unexpected GroupVersion string: ${text}`)
    return
  }
  const [version = '', group = ''] = parts.reverse()
  if (group !== '') found.addClause(field, checkSubdomain(group))
  found.addClause(field, version === '' ? 'version must be specified' : problemOfLabel(version))
}

/** Finds what is wrong with the status of a policy, beyond its schema. */
export function findingsOfPolicyStatus(status: Fields): Findings {
  const place = 'status.typeChecking.expressionWarnings'
  const found = new Findings()
  const warnings = recordsOf(recordOf(status.typeChecking).expressionWarnings)
  for (const [at, { warning, fieldRef }] of warnings.entries()) {
    if (textOf(warning) === '') found.required(`${place}[${at}].warning`)
    if (textOf(fieldRef).trim() === '') found.required(`${place}[${at}].fieldRef`)
  }
  const types = recordsOf(status.conditions).map(({ type }) => textOf(type))
  const field = (at: number) => `status.conditions[${at}].type`
  for (const [at, type] of types.entries()) found.addClause(field(at), checkLabelKey(type))
  checkDistinct(types, field, found)
  return found
}
