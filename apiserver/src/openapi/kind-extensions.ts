import { defaultIndexes } from '@setpoint/controller-runtime/internal'
import type { JsonObject, ServedModel, ServedVersion } from '../model/index.ts'

interface Extended {
  readonly served: ServedModel
  readonly version: ServedVersion
  /** The path of the module that adds to the console for this kind. */
  readonly consoleModule?: string
}

/** What the console and other generic clients need to know of a kind besides its schema, as keywords of the schema. */
export function kindExtensions({ served, version, consoleModule }: Extended): JsonObject {
  // Reviews are not listed.
  if (served.review !== undefined) return {}
  const { model } = served
  const indexes = [...defaultIndexes(model.scope), ...model.indexes]
  const known = new Set(indexes.map(({ name }) => name))
  return {
    'x-setpoint-indexes': indexes.map(({ name, unique, multiple, order }) => ({
      name,
      ...(unique && { unique }),
      ...(multiple && { multi: true }),
      ...(order === 'DESC' && { order }),
    })),
    'x-setpoint-columns': columnsOf(version).map(({ name, type, priority = 0, jsonPath }) => {
      const index = jsonPath.slice(1)
      return { name, jsonPath, type, priority, ...(known.has(index) && { index }) }
    }),
    ...(consoleModule !== undefined && { 'x-setpoint-console': { module: consoleModule } }),
  }
}

interface Column {
  readonly name: string
  readonly type: string
  readonly priority?: number
  /** Empty for a column that the server computes. */
  readonly jsonPath: string
}

/** The columns of a Table: the name, and those that the kind declares or else the age. */
function columnsOf({ printerColumns }: ServedVersion): Column[] {
  const name = { name: 'Name', type: 'string', jsonPath: '.metadata.name' }
  const age = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' }
  if (printerColumns.length === 0) return [name, age]
  const declared = printerColumns.map(column => ({
    name: column.name,
    type: column.type,
    priority: column.priority,
    jsonPath: 'jsonPath' in column ? column.jsonPath : '',
  }))
  return declared.some(column => column.name === name.name) ? declared : [name, ...declared]
}
