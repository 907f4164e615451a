import { isRecord, type KeysOf, unknownKeys } from '@setpoint/controller-runtime/api'
import { quote } from '@setpoint/controller-runtime/internal'
import { load } from 'js-yaml'
import {
  type AuditLevel,
  AuditPolicy,
  type AuditResources,
  type AuditRule,
  type AuditStage,
  auditLevels,
  auditStages,
} from './policy.ts'

/** The policy file is invalid. The message is a clause that begins with the place. */
export class AuditPolicyError extends Error {
  override readonly name = 'AuditPolicyError'
}

const policyKeys = {
  apiVersion: true,
  kind: true,
  metadata: true,
  rules: true,
  omitStages: true,
  omitManagedFields: true,
} as const

const ruleKeys: KeysOf<AuditRule> = {
  level: true,
  users: true,
  userGroups: true,
  verbs: true,
  resources: true,
  namespaces: true,
  nonResourceURLs: true,
  omitStages: true,
  omitManagedFields: true,
}

const resourcesKeys: KeysOf<AuditResources> = { group: true, resources: true, resourceNames: true }

/**
 * Reads an `audit.k8s.io/v1` Policy, YAML or JSON. As in Kubernetes, a policy needs a rule, and a rule is either about
 * objects or about other paths.
 * @throws AuditPolicyError also for an unknown key
 */
export function readPolicy(text: string): AuditPolicy {
  const policy = recordAt(parse(text), 'the policy', policyKeys)
  if (policy.apiVersion !== 'audit.k8s.io/v1') throw invalid('apiVersion', 'must be audit.k8s.io/v1')
  if (policy.kind !== 'Policy') throw invalid('kind', 'must be Policy')
  const omitStages = stagesAt(policy, 'omitStages')
  const omitManagedFields = booleanAt(policy, 'omitManagedFields') ?? false
  const { rules } = policy
  if (!Array.isArray(rules) || rules.length === 0)
    throw invalid('rules', 'must be a list of at least one rule')
  return new AuditPolicy(
    rules.map((fields: unknown, at) => {
      const rule = readRule(fields, `rules[${at}]`)
      return {
        ...rule,
        omitStages: new Set([...omitStages, ...rule.omitStages]),
        omitManagedFields: rule.omitManagedFields ?? omitManagedFields,
      }
    }),
  )
}

type ReadRule = Omit<AuditRule, 'omitStages' | 'omitManagedFields'> & {
  readonly omitStages: readonly AuditStage[]
  readonly omitManagedFields: boolean | undefined
}

function readRule(value: unknown, place: string): ReadRule {
  const fields = recordAt(value, place, ruleKeys)
  const resources = listAt(fields, 'resources', place).map((each, at) =>
    readResources(each, `${place}.resources[${at}]`),
  )
  const namespaces = textsAt(fields, 'namespaces', place)
  const nonResourceURLs = textsAt(fields, 'nonResourceURLs', place)
  if (nonResourceURLs.length > 0 && resources.length + namespaces.length > 0)
    throw invalid(place, 'has nonResourceURLs and also resources or namespaces; make two rules of it')
  for (const [at, pattern] of nonResourceURLs.entries()) {
    const isPattern = pattern === '*' || (pattern.startsWith('/') && !pattern.slice(0, -1).includes('*'))
    if (!isPattern)
      throw invalid(`${place}.nonResourceURLs[${at}]`, 'must be * or begin with /, with * only at its end')
  }
  return {
    level: levelAt(fields, place),
    users: textsAt(fields, 'users', place),
    userGroups: textsAt(fields, 'userGroups', place),
    verbs: textsAt(fields, 'verbs', place),
    resources,
    namespaces,
    nonResourceURLs,
    omitStages: stagesAt(fields, 'omitStages', place),
    omitManagedFields: booleanAt(fields, 'omitManagedFields', place),
  }
}

function readResources(value: unknown, place: string): AuditResources {
  const fields = recordAt(value, place, resourcesKeys)
  const { group = '' } = fields
  if (typeof group !== 'string' && group !== null) throw invalid(`${place}.group`, 'must be a string')
  if (group?.includes('/'))
    throw invalid(`${place}.group`, `must be a group without a version, is ${quote(group)}`)
  const resources = textsAt(fields, 'resources', place)
  const resourceNames = textsAt(fields, 'resourceNames', place)
  if (resourceNames.length > 0 && resources.length === 0)
    throw invalid(`${place}.resourceNames`, 'needs resources')
  return { group: group ?? '', resources, resourceNames }
}

function levelAt({ level }: Readonly<Record<string, unknown>>, place: string): AuditLevel {
  const found = auditLevels.find(name => name === level)
  if (found === undefined) throw invalid(`${place}.level`, `must be one of ${auditLevels.join(', ')}`)
  return found
}

function stagesAt(fields: Readonly<Record<string, unknown>>, key: string, place?: string): AuditStage[] {
  return textsAt(fields, key, place).map((text, at) => {
    const stage = auditStages.find(name => name === text)
    if (stage === undefined)
      throw invalid(`${within(place, key)}[${at}]`, `must be one of ${auditStages.join(', ')}`)
    return stage
  })
}

function booleanAt(
  fields: Readonly<Record<string, unknown>>,
  key: string,
  place?: string,
): boolean | undefined {
  const value = fields[key] ?? undefined
  if (value !== undefined && typeof value !== 'boolean')
    throw invalid(within(place, key), 'must be true or false')
  return value
}

function textsAt(fields: Readonly<Record<string, unknown>>, key: string, place?: string): string[] {
  return listAt(fields, key, place).map((text, at) => {
    if (typeof text !== 'string') throw invalid(`${within(place, key)}[${at}]`, 'must be a string')
    return text
  })
}

function listAt(fields: Readonly<Record<string, unknown>>, key: string, place?: string): unknown[] {
  const list = fields[key] ?? []
  if (!Array.isArray(list)) throw invalid(within(place, key), 'must be a list')
  return list
}

function recordAt(
  value: unknown,
  place: string,
  known: Readonly<Record<string, true>>,
): Readonly<Record<string, unknown>> {
  if (!isRecord(value)) throw invalid(place, `must be a mapping with ${Object.keys(known).join(', ')}`)
  const [problem] = unknownKeys(value, known, place)
  if (problem !== undefined) throw new AuditPolicyError(problem)
  return value
}

function parse(text: string): unknown {
  try {
    return load(text)
  } catch (error) {
    const line = error instanceof Error ? /\((\d+):\d+\)/.exec(error.message)?.[1] : undefined
    throw new AuditPolicyError(`is not valid YAML${line === undefined ? '' : `: see line ${line}`}`, {
      cause: error,
    })
  }
}

function within(place: string | undefined, key: string): string {
  return place === undefined ? key : `${place}.${key}`
}

function invalid(place: string, problem: string): AuditPolicyError {
  return new AuditPolicyError(`${place} ${problem}`)
}
