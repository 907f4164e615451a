import type { Findings } from '../../findings.ts'
import type { PrinterColumn } from './definition.ts'

const types = ['boolean', 'date', 'integer', 'number', 'string']
const formats = ['byte', 'date', 'date-time', 'double', 'float', 'int32', 'int64', 'password']

/** Checks printer columns. `JSONPath` is the name of the field in Kubernetes' internal type, and so in causes. */
export function checkColumns(columns: readonly PrinterColumn[], place: string, found: Findings): void {
  for (const [at, { name, type, format = '', jsonPath }] of columns.entries()) {
    const of = (field: string) => `${place}[${at}].${field}`
    if (name === '') found.required(of('name'))
    if (type === '') found.required(of('type'), `must be one of ${types.join(', ')}`)
    else if (!types.includes(type)) found.invalid(of('type'), `must be one of ${types.join(', ')}`)
    if (format !== '' && !formats.includes(format))
      found.invalid(of('format'), `must be one of ${formats.join(', ')}`)
    if (jsonPath === '') found.required(of('JSONPath'))
    else checkSimplePath(jsonPath, of('JSONPath'), found)
  }
}

/** Checks what Kubernetes asks of a path here: that it starts with a dot. Returns true if it does. */
export function checkSimplePath(path: string, place: string, found: Findings): boolean {
  if (path.startsWith('.')) return true
  found.invalid(place, 'must be a simple JSONPath that starts with a dot')
  return false
}
