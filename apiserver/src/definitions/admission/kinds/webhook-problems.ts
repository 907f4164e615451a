import { checkSubdomain } from '@setpoint/controller-runtime/api'
import {
  type Fields,
  problemsOfSelector,
  recordOf,
  recordsOf,
  textOf,
  textsOf,
} from '../../../kubernetes/index.ts'
import { Findings } from '../../findings.ts'
import { inTurns } from '../../turns.ts'
import { checkClientConfig, checkReviewVersions, clientConfigOf } from '../../webhooks/index.ts'
import { checkConditions } from './condition-problems.ts'
import { checkDistinct, checkOneOf } from './lists.ts'
import { checkRule, failurePolicies, matchPolicies } from './rule-problems.ts'

const sideEffects = ['None', 'NoneOnDryRun']
const reinvocationPolicies = ['IfNeeded', 'Never']

/** Finds what is wrong with the webhooks of a configuration, as Kubernetes validates them. */
export async function findingsOfWebhooks(value: unknown, isMutating: boolean): Promise<Findings> {
  const found = new Findings()
  await inTurns(checkWebhooks(recordsOf(value), isMutating, found))
  return found
}

function* checkWebhooks(webhooks: readonly Fields[], isMutating: boolean, found: Findings): Generator<void> {
  for (const [at, webhook] of webhooks.entries()) {
    yield
    yield* checkWebhook(webhook, `webhooks[${at}]`, isMutating, found)
  }
  checkDistinct(
    webhooks.map(({ name }) => textOf(name)),
    at => `webhooks[${at}].name`,
    found,
  )
}

function* checkWebhook(
  webhook: Fields,
  place: string,
  isMutating: boolean,
  found: Findings,
): Generator<void> {
  const { sideEffects: effects, timeoutSeconds } = webhook
  checkWebhookName(textOf(webhook.name), `${place}.name`, found)
  for (const [at, rule] of recordsOf(webhook.rules).entries()) checkRule(rule, `${place}.rules[${at}]`, found)
  checkOneOf(failurePolicies, textOf(webhook.failurePolicy), `${place}.failurePolicy`, found)
  checkOneOf(matchPolicies, textOf(webhook.matchPolicy), `${place}.matchPolicy`, found)
  if (typeof effects === 'string') checkOneOf(sideEffects, effects, `${place}.sideEffects`, found)
  else found.required(`${place}.sideEffects`, `must specify one of ${sideEffects.join(', ')}`)
  if (typeof timeoutSeconds === 'number' && (timeoutSeconds < 1 || timeoutSeconds > 30))
    found.invalid(`${place}.timeoutSeconds`, 'the timeout value must be between 1 and 30 seconds')
  found.addAll(problemsOfSelector(recordOf(webhook.namespaceSelector), `${place}.namespaceSelector`))
  found.addAll(problemsOfSelector(recordOf(webhook.objectSelector), `${place}.objectSelector`))
  if (isMutating)
    checkOneOf(reinvocationPolicies, textOf(webhook.reinvocationPolicy), `${place}.reinvocationPolicy`, found)
  checkClientConfig(clientConfigOf(recordOf(webhook.clientConfig)), `${place}.clientConfig`, found)
  yield* checkConditions(webhook.matchConditions, false, `${place}.matchConditions`, found)
  checkReviewVersions(
    textsOf(webhook.admissionReviewVersions),
    `${place}.admissionReviewVersions`,
    false,
    found,
  )
}

function checkWebhookName(name: string, field: string, found: Findings): void {
  if (name === '') {
    found.required(field)
    return
  }
  const problem = checkSubdomain(name)
  if (problem !== undefined) found.invalid(field, problem)
  else if (name.split('.').length < 3)
    found.invalid(field, 'should be a domain with at least three segments separated by dots')
}
