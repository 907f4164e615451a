import { checkName } from '@setpoint/controller-runtime/api'
import {
  type Fields,
  problemsOfSelector,
  recordOf,
  recordsOf,
  textOf,
  textsOf,
} from '../../../kubernetes/index.ts'
import type { Findings } from '../../findings.ts'
import { checkDistinct, checkOneOf } from './lists.ts'

const operations = ['*', 'CONNECT', 'CREATE', 'DELETE', 'UPDATE']
const scopes = ['*', 'Cluster', 'Namespaced']
export const matchPolicies: readonly string[] = ['Equivalent', 'Exact']
export const failurePolicies: readonly string[] = ['Fail', 'Ignore']

/** Checks a rule with its operations. @param place the field of the rule */
export function checkRule(rule: Fields, place: string, found: Findings): void {
  const [given, groups, versions] = [
    textsOf(rule.operations),
    textsOf(rule.apiGroups),
    textsOf(rule.apiVersions),
  ]
  checkWildcard(given, `${place}.operations`, 'operations', found)
  for (const [at, operation] of given.entries())
    checkOneOf(operations, operation, `${place}.operations[${at}]`, found)
  checkWildcard(groups, `${place}.apiGroups`, 'API groups', found)
  checkWildcard(versions, `${place}.apiVersions`, 'API versions', found)
  checkFilled(versions, `${place}.apiVersions`, found)
  checkResources(textsOf(rule.resources), `${place}.resources`, found)
  if (rule.scope !== undefined) checkOneOf(scopes, textOf(rule.scope), `${place}.scope`, found)
}

function checkWildcard(values: readonly string[], field: string, what: string, found: Findings): void {
  if (values.length === 0) found.required(field)
  if (values.length > 1 && values.includes('*'))
    found.invalid(field, `if '*' is present, must not specify other ${what}`)
}

function checkFilled(values: readonly string[], field: string, found: Findings): void {
  for (const [at, value] of values.entries()) if (value === '') found.required(`${field}[${at}]`)
}

function checkResources(resources: readonly string[], field: string, found: Findings): void {
  if (resources.length === 0) found.required(field)
  checkFilled(resources, field, found)
  const wholeResources = new Set<string>()
  const wholeSubresources = new Set<string>()
  for (const [at, text] of resources.entries()) {
    const slash = text.indexOf('/')
    if (slash < 0) continue
    const [resource, subresource] = [text.slice(0, slash), text.slice(slash + 1)]
    if (wholeResources.has(resource))
      found.invalid(`${field}[${at}]`, `if '${resource}/*' is present, must not specify ${text}`)
    if (wholeSubresources.has(subresource))
      found.invalid(`${field}[${at}]`, `if '*/${subresource}' is present, must not specify ${text}`)
    if (subresource === '*') wholeResources.add(resource)
    if (resource === '*') wholeSubresources.add(subresource)
  }
  if (resources.length > 1 && resources.includes('*/*'))
    found.invalid(field, "if '*/*' is present, must not specify other resources")
  // As in Kubernetes, the last resource without a subresource decides.
  const plain = resources.filter(text => text !== '' && !text.includes('/'))
  if (resources.includes('*') && plain.length > 0 && plain.at(-1) !== '*')
    found.invalid(field, "if '*' is present, must not specify other resources without subresources")
}

/** Checks what a policy or a binding matches. */
export function checkMatchResources(match: Fields, place: string, found: Findings): void {
  checkOneOf(matchPolicies, textOf(match.matchPolicy), `${place}.matchPolicy`, found)
  found.addAll(problemsOfSelector(recordOf(match.namespaceSelector), `${place}.namespaceSelector`))
  found.addAll(problemsOfSelector(recordOf(match.objectSelector), `${place}.objectSelector`))
  for (const field of ['resourceRules', 'excludeResourceRules'])
    for (const [at, rule] of recordsOf(match[field]).entries())
      checkNamedRule(rule, `${place}.${field}[${at}]`, found)
}

function checkNamedRule(rule: Fields, place: string, found: Findings): void {
  const names = textsOf(rule.resourceNames)
  const field = (at: number) => `${place}.resourceNames[${at}]`
  for (const [at, name] of names.entries()) found.addClause(field(at), checkName(name, 'path-segment'))
  checkDistinct(names, field, found)
  checkRule(rule, place, found)
}
