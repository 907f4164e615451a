import { type Fields, recordOf } from '../kubernetes/index.ts'
import type { IndexFindings } from '../plugins/index.ts'
import type { NamesDecision } from './definition-names.ts'
import { indexesAnnotation } from './kind/index.ts'
import type { StoredDefinition } from './stored-definition.ts'

/** A condition without its time. */
export interface Condition {
  readonly type: string
  readonly status: 'True' | 'False'
  readonly reason: string
  readonly message: string
}

/**
 * The conditions of a definition's names, as Kubernetes' naming and establishing controllers set them.
 * @param isServed true if this server serves the kind, or any server has: a definition that is established stays so
 * @param problem why this server does not serve the kind, if names are not the reason
 */
export function namingConditions(
  { conflict }: NamesDecision,
  { isServed, problem }: { readonly isServed: boolean; readonly problem: string | undefined },
): Condition[] {
  const names: Condition =
    conflict === undefined
      ? { type: 'NamesAccepted', status: 'True', reason: 'NoConflicts', message: 'no conflicts found' }
      : { type: 'NamesAccepted', status: 'False', ...conflict }
  const accepted = { reason: 'InitialNamesAccepted', message: 'the initial names have been accepted' }
  const established: Condition = isServed
    ? { type: 'Established', status: 'True', ...accepted }
    : problem === undefined
      ? { type: 'Established', status: 'False', reason: 'NotAccepted', message: 'not all names are accepted' }
      : { type: 'Established', status: 'False', reason: 'NotServed', message: problem }
  return [names, established]
}

const approvalAnnotation = 'api-approved.kubernetes.io'

/** Returns the condition of a definition in a group of Kubernetes: whether its community has approved it. */
export function approvalConditions({ group, object }: StoredDefinition): Condition[] {
  if (!/(^|\.)(k8s|kubernetes)\.io$/.test(group)) return []
  const { annotations } = recordOf(recordOf(object.metadata))
  const { [approvalAnnotation]: approval } = recordOf(annotations)
  const condition = (status: 'True' | 'False', reason: string, message: string): Condition[] => [
    { type: 'KubernetesAPIApprovalPolicyConformant', status, reason, message },
  ]
  if (typeof approval !== 'string' || approval === '')
    return condition('False', 'MissingAnnotation', `the annotation ${approvalAnnotation} is missing`)
  if (approval.startsWith('unapproved'))
    return condition('False', 'UnapprovedAnnotation', `not approved: ${JSON.stringify(approval)}`)
  if (URL.canParse(approval)) return condition('True', 'ApprovedAnnotation', `approved in ${approval}`)
  return condition('False', 'InvalidAnnotation', `the annotation ${approvalAnnotation} is not a URL`)
}

/** Returns conditions with others in place of those of the same types. The time changes with the status only. */
export function withConditions(
  before: readonly Fields[],
  conditions: readonly Condition[],
  now: number,
): Fields[] {
  const result = [...before]
  for (const condition of conditions) {
    const at = result.findIndex(({ type }) => type === condition.type)
    const old = result[at]
    const lastTransitionTime =
      old?.status === condition.status
        ? old.lastTransitionTime
        : `${new Date(now).toISOString().slice(0, 19)}Z`
    const next = { ...condition, lastTransitionTime }
    if (at < 0) result.push(next)
    else result[at] = next
  }
  return result
}

/** Returns the status of a definition whose names were decided. Kubernetes leaves out empty lists. */
export function statusWith(
  { status }: StoredDefinition,
  { accepted }: NamesDecision,
  conditions: readonly Fields[],
): Fields {
  const { shortNames, categories, ...names } = accepted
  return {
    ...status,
    acceptedNames: {
      ...names,
      ...(shortNames.length > 0 && { shortNames }),
      ...(categories.length > 0 && { categories }),
    },
    conditions,
  }
}

const type = 'IndexesInForce'

/** Returns the conditions of a definition without the one that only a definition with indexes of its own has. */
export function presentConditions(definition: StoredDefinition): readonly Fields[] {
  const { conditions } = definition
  return declaresIndexes(definition) ? conditions : conditions.filter(condition => condition.type !== type)
}

/** The condition of a definition that declares indexes: whether they are in force, and what stands in their way. */
export function indexConditions(
  definition: StoredDefinition,
  findings: IndexFindings | undefined,
): Condition[] {
  if (findings === undefined || !declaresIndexes(definition)) return []
  const { standing, problems } = findings
  if (standing.name !== 'in force')
    return [{ type, status: 'False', reason: 'NotInForce', message: standing.why }]
  if (problems.length === 0)
    return [{ type, status: 'True', reason: 'NoProblems', message: 'the indexes have no problems' }]
  const message = problems.map(problem => `${problem.source}: ${problem.message}`).join('; ')
  return [{ type, status: 'False', reason: 'Problems', message }]
}

function declaresIndexes({ object }: StoredDefinition): boolean {
  const { annotations } = recordOf(recordOf(object.metadata))
  return recordOf(annotations)[indexesAnnotation] !== undefined
}
