import { apiVersionOf, type Kind } from './discovery.ts'
import { get } from './http.ts'
import { type Fields, fieldsOf, isFields, listOf, textOf } from './json.ts'

export interface Index {
  readonly name: string
  readonly order: 'ASC' | 'DESC'
}

export interface Column {
  readonly name: string
  /** Empty for a column that the server computes. */
  readonly jsonPath: string
  readonly type: string
  readonly priority: number
  /** Undefined for a column that rows cannot be sorted by. */
  readonly index: string | undefined
}

/** What the API documents say of a kind. */
export interface KindSchema {
  /** OpenAPI, with its references resolved on the way. */
  readonly schema: Fields
  readonly document: Fields
  readonly columns: readonly Column[]
  readonly indexes: readonly Index[]
  /** Path of the module of a plugin that adds to the console. */
  readonly module: string | undefined
  /** An object as a client sends it, if the documents have one. */
  readonly example: unknown
}

const known = new Map<string, Promise<Fields>>()

/** Forgets the documents, for example because a plugin was reloaded. */
export function forgetSchemas(): void {
  known.clear()
}

/** Reads the schema of a kind. @throws ApiFailure */
export async function schemaOf(kind: Kind): Promise<KindSchema> {
  const document = await documentOf(kind)
  const { schemas, examples } = fieldsOf(document.components)
  const name = Object.keys(fieldsOf(schemas)).find(each => isOf(fieldsOf(schemas)[each], kind))
  const schema = fieldsOf(name === undefined ? undefined : fieldsOf(schemas)[name])
  return {
    schema,
    document,
    columns: listOf(schema['x-setpoint-columns']).map(columnOf),
    indexes: listOf(schema['x-setpoint-indexes']).map(each => {
      const { name, order } = fieldsOf(each)
      return { name: textOf(name), order: order === 'DESC' ? 'DESC' : 'ASC' }
    }),
    module: textOf(fieldsOf(schema['x-setpoint-console']).module) || undefined,
    example: name === undefined ? undefined : fieldsOf(fieldsOf(examples)[name]).value,
  }
}

function documentOf(kind: Kind): Promise<Fields> {
  const path = `/openapi/v3/${kind.group === '' ? 'api' : 'apis'}/${apiVersionOf(kind)}`
  const found = known.get(path) ?? get(path)
  known.set(path, found)
  found.catch(() => known.delete(path))
  return found
}

function isOf(schema: unknown, { group, version, kind }: Kind): boolean {
  return listOf(fieldsOf(schema)['x-kubernetes-group-version-kind']).some(each => {
    const of = fieldsOf(each)
    return of.group === group && of.version === version && of.kind === kind
  })
}

function columnOf(value: unknown): Column {
  const { name, jsonPath, type, priority, index } = fieldsOf(value)
  return {
    name: textOf(name),
    jsonPath: textOf(jsonPath),
    type: textOf(type),
    priority: typeof priority === 'number' ? priority : 0,
    index: textOf(index) || undefined,
  }
}

/** Follows a reference within the document. */
export function resolved(schema: unknown, document: Fields): Fields {
  let found = fieldsOf(schema)
  for (let steps = 0; steps < 16; steps++) {
    const all = listOf(found.allOf)
    const target = textOf(found.$ref) || (all.length === 1 ? textOf(fieldsOf(all[0]).$ref) : '')
    if (target === '') return found
    let at: unknown = document
    for (const part of target.replace(/^#\//, '').split('/'))
      at = isFields(at) ? at[part.replace(/~1/g, '/').replace(/~0/g, '~')] : undefined
    found = {
      ...fieldsOf(at),
      ...(typeof found.description === 'string' && { description: found.description }),
    }
  }
  return found
}

/** Follows the names of fields; '-' is an element of a list. */
export function schemaAt(schema: Fields, document: Fields, path: readonly string[]): Fields {
  let at = resolved(schema, document)
  for (const name of path) {
    const { properties, items, additionalProperties } = at
    if (name === '-') at = resolved(items, document)
    else {
      const property = fieldsOf(properties)[name]
      at = resolved(property ?? (isFields(additionalProperties) ? additionalProperties : {}), document)
    }
  }
  return at
}
