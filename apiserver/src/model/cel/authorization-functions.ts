import { checkDnsLabel, checkName } from '@setpoint/controller-runtime/api'
import { AccessDecision, Authorizer, GroupCheck, PathCheck, ResourceCheck } from './authorization.ts'
import { stepCosts } from './budget.ts'
import { CelEvaluationError } from './errors.ts'
import { type OverloadTable, overload } from './overloads.ts'
import { bool, type CelType, string } from './types.ts'

const decision: CelType = { kind: 'decision' }
const resourceCheck: CelType = { kind: 'resourceCheck' }

/** @throws CelEvaluationError if the text is blank */
function given(what: string, text: string): string {
  if (text.trim() === '') throw new CelEvaluationError(`${what} must not be empty`)
  return text
}

function narrowing(part: 'subresource' | 'namespace' | 'name') {
  return [
    overload(['resourceCheck', 'string'], resourceCheck, ([check, text]) => check.with({ [part]: text })),
  ]
}

/**
 * The methods of `authorizer`, as in Kubernetes. Roles do not depend on selectors, so those are not part of a question.
 */
export const authorizationFunctions: OverloadTable = {
  path: [
    overload(
      ['authorizer', 'string'],
      { kind: 'pathCheck' },
      ([authorizer, path]) => new PathCheck(authorizer, given('path', path)),
    ),
  ],
  group: [
    overload(
      ['authorizer', 'string'],
      { kind: 'groupCheck' },
      ([authorizer, group]) => new GroupCheck(authorizer, group),
    ),
  ],
  serviceAccount: [
    overload(['authorizer', 'string', 'string'], { kind: 'authorizer' }, ([authorizer, namespace, name]) => {
      if (checkName(name, 'dns-subdomain') !== undefined)
        throw new CelEvaluationError('Invalid service account name')
      if (checkDnsLabel(namespace) !== undefined)
        throw new CelEvaluationError('Invalid service account namespace')
      return new Authorizer(authorizer.ask, undefined, { namespace, name })
    }),
  ],
  resource: [
    overload(['groupCheck', 'string'], resourceCheck, ([{ authorizer, group }, text]) => {
      const resource = given('resource', text)
      return new ResourceCheck(authorizer, { group, resource, subresource: '', namespace: '', name: '' })
    }),
  ],
  subresource: narrowing('subresource'),
  namespace: narrowing('namespace'),
  name: narrowing('name'),
  fieldSelector: [overload(['resourceCheck', 'string'], resourceCheck, ([check]) => check)],
  labelSelector: [overload(['resourceCheck', 'string'], resourceCheck, ([check]) => check)],
  check: [
    overload(['pathCheck', 'string'], decision, ([{ authorizer, path }, verb], budget) => {
      budget.spend(stepCosts.access)
      return new AccessDecision(authorizer.ask({ verb, account: authorizer.account, target: path }))
    }),
    overload(['resourceCheck', 'string'], decision, ([{ authorizer, resource }, verb], budget) => {
      budget.spend(stepCosts.access)
      return new AccessDecision(authorizer.ask({ verb, account: authorizer.account, target: resource }))
    }),
  ],
  allowed: [overload(['decision'], bool, ([{ answer }]) => answer.isAllowed)],
  reason: [overload(['decision'], string, ([{ answer }]) => answer.reason)],
  errored: [overload(['decision'], bool, ([{ answer }]) => answer.error !== '')],
  error: [overload(['decision'], string, ([{ answer }]) => answer.error)],
}
