import { checkName, checkSubdomain } from '@setpoint/controller-runtime/api'
import { type Fields, problemsOfSelector, recordOf, textOf, textsOf } from '../../../kubernetes/index.ts'
import { Findings } from '../../findings.ts'
import { checkDistinct, checkOneOf } from './lists.ts'
import { checkMatchResources } from './rule-problems.ts'

const actions = ['Audit', 'Deny', 'Warn']

/** Finds what is wrong with the binding of a policy, as Kubernetes validates it. */
export function findingsOfBinding(spec: Fields): Findings {
  const { paramRef, matchResources } = spec
  const policyName = textOf(spec.policyName)
  const found = new Findings()
  if (policyName === '') found.required('spec.policyName')
  else found.addClause('spec.policyName', checkSubdomain(policyName))
  if (paramRef !== undefined) checkParamRef(recordOf(paramRef), 'spec.paramRef', found)
  if (matchResources !== undefined)
    checkMatchResources(recordOf(matchResources), 'spec.matchResources', found)
  checkActions(textsOf(spec.validationActions), 'spec.validationActions', found)
  return found
}

function checkParamRef(ref: Fields, place: string, found: Findings): void {
  const { selector } = ref
  const [name, action] = [textOf(ref.name), textOf(ref.parameterNotFoundAction)]
  if (name !== '') found.addClause(`${place}.name`, checkName(name, 'path-segment'))
  if (name !== '' && selector !== undefined)
    for (const field of ['name', 'selector'])
      found.forbidden(`${place}.${field}`, 'name and selector are mutually exclusive')
  if (selector !== undefined) found.addAll(problemsOfSelector(recordOf(selector), `${place}.selector`))
  if (name === '' && selector === undefined)
    found.required(place, 'one of name or selector must be specified')
  const field = `${place}.parameterNotFoundAction`
  if (action === '') found.required(field)
  else checkOneOf(['Deny', 'Allow'], action, field, found)
}

function checkActions(given: readonly string[], field: string, found: Findings): void {
  if (given.length === 0) found.required(field, 'at least one validation action is required')
  for (const [at, action] of given.entries()) checkOneOf(actions, action, `${field}[${at}]`, found)
  checkDistinct(given, at => `${field}[${at}]`, found)
  if (given.includes('Deny') && given.includes('Warn'))
    found.invalid(
      field,
      'must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)',
    )
}
