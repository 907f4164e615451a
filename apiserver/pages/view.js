/**
 * What the page shows of an OpenAPI document, without a browser. Texts of a document come from plugins: they are data, and
 * never markup.
 *
 * @typedef {Record<string, unknown>} Fields
 * @typedef {{ group: string, versions: { version: string, key: string, search: string }[] }} Group
 * @typedef {{ name: string, type: string, isRequired: boolean, notes: string[], description: string, children: () => Field[] }} Field
 * @typedef {{ name: string, place: string, type: string, isRequired: boolean, description: string }} Parameter
 * @typedef {{ type: string, schema: Field, example: string }} Body
 * @typedef {{ code: string, description: string, bodies: Body[] }} Response
 * @typedef {{ id: string, method: string, path: string, summary: string, description: string, isDeprecated: boolean,
 *   parameters: Parameter[], bodies: Body[], responses: Response[] }} Operation
 * @typedef {{ name: string, description: string, operations: Operation[] }} Section
 */

const methods = ['get', 'post', 'put', 'patch', 'delete']

/** @param {unknown} value @returns {Fields} */
function fieldsOf(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
}

/** @param {unknown} value @returns {unknown[]} */
function listOf(value) {
  return Array.isArray(value) ? value : []
}

/** @param {unknown} value @returns {string} */
function textOf(value) {
  return typeof value === 'string' ? value : ''
}

/**
 * Follows a reference into the document's components.
 * @param {Fields} document
 * @param {unknown} value
 * @returns {Fields}
 */
function resolve(document, value) {
  const fields = fieldsOf(value)
  const [, section = '', name = ''] = /^#\/components\/(\w+)\/(.+)$/.exec(textOf(fields.$ref)) ?? []
  return section === '' ? fields : fieldsOf(fieldsOf(fieldsOf(document.components)[section])[name])
}

/**
 * The groups of an index, with the path of each version's document below `openapi/v3/`.
 * @param {unknown} index
 * @returns {Group[]}
 */
export function groupsOf(index) {
  /** @type {Map<string, Group>} */
  const groups = new Map()
  for (const [key, entry] of Object.entries(fieldsOf(fieldsOf(index).paths))) {
    const parts = key.split('/')
    const version = parts.at(-1) ?? ''
    const group = parts.length > 2 ? (parts[1] ?? '') : 'core'
    const [, search = ''] = textOf(fieldsOf(entry).serverRelativeURL).split('?')
    const found = groups.get(group) ?? { group, versions: [] }
    found.versions.push({ version, key, search })
    groups.set(group, found)
  }
  return [...groups.values()].sort((a, b) => (a.group < b.group ? -1 : 1))
}

/**
 * The operations of a document by tag: the kinds, and the plugins with routes.
 * @param {unknown} input
 * @returns {Section[]}
 */
export function sectionsOf(input) {
  const document = fieldsOf(input)
  /** @type {Map<string, Section>} */
  const sections = new Map()
  for (const tag of listOf(document.tags).map(fieldsOf)) {
    const name = textOf(tag.name)
    sections.set(name, { name, description: textOf(tag.description), operations: [] })
  }
  for (const [path, item] of Object.entries(fieldsOf(document.paths))) {
    const shared = listOf(fieldsOf(item).parameters)
    for (const method of methods) {
      const operation = fieldsOf(item)[method]
      if (operation === undefined) continue
      const fields = fieldsOf(operation)
      const [tag] = listOf(fields.tags)
      const name = textOf(tag)
      const section = sections.get(name) ?? { name, description: '', operations: [] }
      sections.set(name, section)
      section.operations.push(operationOf(document, method, path, fields, shared))
    }
  }
  return [...sections.values()].filter(({ operations }) => operations.length > 0)
}

/**
 * @param {Fields} document
 * @param {string} method
 * @param {string} path
 * @param {Fields} operation
 * @param {unknown[]} shared
 * @returns {Operation}
 */
function operationOf(document, method, path, operation, shared) {
  const parameters = [...shared, ...listOf(operation.parameters)].map(each => {
    const parameter = resolve(document, each)
    return {
      name: textOf(parameter.name),
      place: textOf(parameter.in),
      type: typeOf(document, parameter.schema),
      isRequired: parameter.required === true,
      description: textOf(parameter.description),
    }
  })
  const responses = Object.entries(fieldsOf(operation.responses)).map(([code, each]) => {
    const response = resolve(document, each)
    return {
      code,
      description: textOf(response.description),
      bodies: code < '400' ? bodiesOf(document, response.content) : [],
    }
  })
  return {
    id: textOf(operation.operationId),
    method: method.toUpperCase(),
    path,
    summary: textOf(operation.summary),
    description: textOf(operation.description),
    isDeprecated: operation.deprecated === true,
    parameters,
    bodies: bodiesOf(document, fieldsOf(operation.requestBody).content),
    responses,
  }
}

/**
 * @param {Fields} document
 * @param {unknown} content
 * @returns {Body[]}
 */
function bodiesOf(document, content) {
  return Object.entries(fieldsOf(content)).map(([type, media]) => {
    const { schema, example, examples } = fieldsOf(media)
    const [first] = Object.values(fieldsOf(examples))
    const shown = example ?? resolve(document, first).value
    return {
      type,
      schema: fieldOf(document, '', schema, false),
      example: shown === undefined ? '' : JSON.stringify(shown, undefined, 2),
    }
  })
}

/**
 * One field of a schema. Its children are made on demand.
 * @param {Fields} document
 * @param {string} name
 * @param {unknown} schema
 * @param {boolean} isRequired
 * @returns {Field}
 */
function fieldOf(document, name, schema, isRequired) {
  const resolved = contentOf(document, schema)
  const described = fieldsOf(schema)
  return {
    name,
    type: typeOf(document, schema),
    isRequired,
    notes: notesOf(resolved),
    description: textOf(described.description) || textOf(resolved.description),
    children: () => childrenOf(document, resolved),
  }
}

/**
 * The schema behind a reference, or behind a description of one.
 * @param {Fields} document
 * @param {unknown} schema
 * @returns {Fields}
 */
function contentOf(document, schema) {
  const resolved = resolve(document, schema)
  const [only, ...more] = listOf(resolved.allOf)
  if (only === undefined || more.length > 0 || resolved.properties !== undefined) return resolved
  return contentOf(document, only)
}

/**
 * @param {Fields} document
 * @param {Fields} schema
 * @returns {Field[]}
 */
function childrenOf(document, schema) {
  const required = listOf(schema.required)
  const properties = Object.entries(fieldsOf(schema.properties)).map(([name, property]) =>
    fieldOf(document, name, property, required.includes(name)),
  )
  const choices = ['allOf', 'anyOf', 'oneOf'].flatMap(keyword =>
    listOf(schema[keyword]).map((choice, at) => fieldOf(document, `${keyword}[${at}]`, choice, false)),
  )
  if (schema.items !== undefined) return childrenOf(document, contentOf(document, schema.items))
  const others = fieldsOf(schema.additionalProperties)
  const rest = Object.keys(others).length === 0 ? [] : [fieldOf(document, '<any name>', others, false)]
  return [...properties, ...rest, ...choices]
}

/**
 * A short name of a schema's type, such as `string`, `[]Probe` or `map of string`.
 * @param {Fields} document
 * @param {unknown} schema
 * @returns {string}
 */
function typeOf(document, schema) {
  const fields = fieldsOf(schema)
  const name = textOf(fields.$ref).split(/[/.]/).at(-1)
  if (name) return name
  const [only, ...more] = listOf(fields.allOf)
  if (only !== undefined && more.length === 0 && fields.properties === undefined)
    return typeOf(document, only)
  if (fields['x-kubernetes-int-or-string'] === true) return 'integer or string'
  if (fields.type === 'array') return `[]${typeOf(document, fields.items)}`
  const others = fieldsOf(fields.additionalProperties)
  if (Object.keys(others).length > 0) return `map of ${typeOf(document, others)}`
  return textOf(fields.type) || 'any'
}

const constraints = [
  'format',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'pattern',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
  'enum',
  'default',
  'nullable',
  'x-kubernetes-list-type',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-map-type',
]

/** @param {Fields} schema @returns {string[]} */
function notesOf(schema) {
  const notes = constraints
    .filter(keyword => schema[keyword] !== undefined && schema[keyword] !== false)
    .map(keyword => `${keyword.replace('x-kubernetes-', '')}: ${JSON.stringify(schema[keyword])}`)
  const rules = listOf(schema['x-kubernetes-validations']).map(each => `rule: ${textOf(fieldsOf(each).rule)}`)
  return [...notes, ...rules]
}

/** The values of path parameters in command lines. */
const placeholders = new Map([
  ['name', 'example'],
  ['namespace', 'default'],
])

/**
 * A command line that sends the request of an operation. The example's values can be replaced; `$TOKEN` stands for a token.
 * @param {string} root the URL of the server, with its base path
 * @param {Pick<Operation, 'method' | 'path' | 'bodies'>} operation
 * @param {boolean} needsToken
 * @returns {string}
 */
export function curlOf(root, { method, path, bodies }, needsToken) {
  const url = `${root}${path.replace(/\{(\w+)\}/g, (_, name) => placeholders.get(name) ?? name.toUpperCase())}`
  const words = ['curl', '-s', ...(method === 'GET' ? [] : ['-X', method])]
  if (needsToken) words.push('-H', '"Authorization: Bearer $TOKEN"')
  const [first] = bodies
  const body = bodies.find(({ example }) => example !== '')
  if (body !== undefined) {
    words.push('-H', quote(`Content-Type: ${body.type}`))
    words.push('-d', quote(JSON.stringify(JSON.parse(body.example))))
  } else if (first !== undefined) {
    // The schema gives no example, so the caller writes the body into a file.
    words.push('-H', quote(`Content-Type: ${first.type}`), '--data-binary', '@body')
  }
  return [...words, quote(url)].join(' ')
}

/** Quotes a word for a POSIX shell. @param {string} word */
function quote(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}
