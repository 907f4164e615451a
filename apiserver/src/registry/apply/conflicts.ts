import { ApiError, type StatusCause } from '@setpoint/controller-runtime/api'
import { compareCodePoints, objectLimits, quote } from '../../model/index.ts'
import { firstPaths, sizeOf } from './field-set.ts'
import type { Manager } from './managed-fields.ts'
import type { Conflict } from './ownership.ts'
import { formatElements, hasValue } from './path-element.ts'

/**
 * Returns the error of an apply that would change fields of other managers: 409 with a cause for each field, at most
 * `objectLimits.violations`. The texts are those of Kubernetes' `managedfields/internal/conflict.go`.
 * @param isSensitive true for a kind with secrets: the fields name a list, and not its items
 */
export function conflictError(conflicts: readonly Conflict[], isSensitive: boolean): ApiError {
  const causes: StatusCause[] = []
  const fieldsOfManagers = new Map<string, string[]>()
  let count = 0
  for (const { entry, fields } of conflicts) {
    const manager = describe(entry)
    count += sizeOf(fields)
    for (const path of firstPaths(fields, objectLimits.violations - causes.length)) {
      const field = formatElements(isSensitive ? path.filter(element => !hasValue(element)) : path)
      causes.push({ reason: 'FieldManagerConflict', message: `conflict with ${manager}`, field })
      const known = fieldsOfManagers.get(manager)
      if (known === undefined) fieldsOfManagers.set(manager, [field])
      else known.push(field)
    }
  }
  return new ApiError('Conflict', messageOf(count, fieldsOfManagers), { causes })
}

function messageOf(count: number, fieldsOfManagers: ReadonlyMap<string, readonly string[]>): string {
  const managers = [...fieldsOfManagers].sort(([a], [b]) => compareCodePoints(a, b))
  const [first] = managers
  if (count === 1 && first !== undefined)
    return `Apply failed with 1 conflict: conflict with ${first[0]}: ${first[1][0]}`
  const lines = managers.flatMap(([manager, fields]) => [
    `conflicts with ${manager}:`,
    ...fields.map(field => `- ${field}`),
  ])
  return `Apply failed with ${count} conflicts: ${lines.join('\n')}`
}

function describe({ manager, operation, apiVersion, subresource }: Manager): string {
  let text = quote(manager)
  if (subresource !== undefined) text += ` with subresource ${quote(subresource)}`
  return operation === 'Apply' ? text : `${text} using ${apiVersion}`
}
