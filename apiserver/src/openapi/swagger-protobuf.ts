import { isRecord } from '@setpoint/controller-runtime/api'
import protobuf from 'protobufjs/minimal.js'
import type { JsonObject } from '../model/index.ts'
import type { SwaggerEncoder, SwaggerPart } from './swagger-json.ts'

/**
 * Encodes Swagger 2.0 documents as the protobuf message `openapi.v2.Document` of gnostic-models
 * (`openapiv2/OpenAPIv2.proto`). It has what the server's documents contain, and the field numbers of that file.
 */

/** Writes a field of a message. */
type Encode = (writer: protobuf.Writer, number: number, value: unknown) => void

/** The fields of a message by their names in JSON. */
type Fields = Readonly<Record<string, readonly [number: number, encode: Encode]>>

const varint = 0
const fixed64 = 1
const lengthDelimited = 2

function begin(writer: protobuf.Writer, number: number, wireType: number): protobuf.Writer {
  return writer.uint32((number << 3) | wireType)
}

/** Clients refuse text that is not valid UTF-8, which a lone surrogate would be. */
const text: Encode = (writer, number, value) => {
  if (typeof value === 'string') begin(writer, number, lengthDelimited).bytes(Buffer.from(value))
}

const flag: Encode = (writer, number, value) => {
  begin(writer, number, varint).bool(value === true)
}

const integer: Encode = (writer, number, value) => {
  begin(writer, number, varint).int64(Number(value))
}

const double: Encode = (writer, number, value) => {
  begin(writer, number, fixed64).double(Number(value))
}

/** `Any`, which holds YAML. */
const any: Encode = (writer, number, value) => {
  begin(writer, number, lengthDelimited).fork()
  text(writer, 2, yamlOf(value))
  writer.ldelim()
}

/** The escapes of JSON. One of a surrogate is of a lone one. */
const escapes = /\\(?:ud[89a-f]..|.)/g
/** Characters that YAML must escape. */
const unprintable = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g

/** Returns JSON that is also YAML, as parsers for Go read it. */
function yamlOf(value: unknown): string {
  return JSON.stringify(value)
    .replace(escapes, found => (found.startsWith('\\ud') ? '\\ufffd' : found))
    .replace(unprintable, unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const list =
  (encode: Encode): Encode =>
  (writer, number, value) => {
    for (const item of Array.isArray(value) ? value : []) encode(writer, number, item)
  }

/** A message with one field. */
const within =
  (inner: number, encode: Encode): Encode =>
  (writer, number, value) => {
    begin(writer, number, lengthDelimited).fork()
    encode(writer, inner, value)
    writer.ldelim()
  }

/** A list of pairs, for an object with any names. */
const pairs =
  (encode: Encode): Encode =>
  (writer, number, value) => {
    for (const [name, part] of Object.entries(isRecord(value) ? value : {}))
      named(writer, number, name, encode, part)
  }

/** A message with a list of pairs. */
const map = (inner: number, encode: Encode): Encode => within(inner, pairs(encode))

/** `NamedSchema`, `NamedAny` and the like: a pair of a name and a value. */
function named(writer: protobuf.Writer, number: number, name: string, encode: Encode, value: unknown): void {
  begin(writer, number, lengthDelimited).fork()
  text(writer, 1, name)
  encode(writer, 2, value)
  writer.ldelim()
}

/** @param extensions the number of the field for members that begin with `x-` */
const message =
  (fields: Fields, extensions?: number): Encode =>
  (writer, number, value) => {
    begin(writer, number, lengthDelimited).fork()
    if (isRecord(value)) writeFields(writer, value, fields, extensions)
    writer.ldelim()
  }

function writeFields(writer: protobuf.Writer, value: JsonObject, fields: Fields, extensions?: number): void {
  for (const [name, part] of Object.entries(value)) {
    if (part === undefined) continue
    if (extensions !== undefined && name.startsWith('x-')) named(writer, extensions, name, any, part)
    else {
      const field = Object.hasOwn(fields, name) ? fields[name] : undefined
      if (field !== undefined) field[1](writer, field[0], part)
    }
  }
}

/** `JsonReference` in one field, and anything else in another. */
const referenceOr =
  (inner: number, encode: Encode): Encode =>
  (writer, number, value) => {
    if (isRecord(value) && value.$ref !== undefined) within(2, reference)(writer, number, value)
    else within(inner, encode)(writer, number, value)
  }

const reference = message({ $ref: [1, text] })

const schemaFields: Fields = {
  $ref: [1, text],
  format: [2, text],
  title: [3, text],
  description: [4, text],
  default: [5, any],
  multipleOf: [6, double],
  maximum: [7, double],
  exclusiveMaximum: [8, flag],
  minimum: [9, double],
  exclusiveMinimum: [10, flag],
  maxLength: [11, integer],
  minLength: [12, integer],
  pattern: [13, text],
  maxItems: [14, integer],
  minItems: [15, integer],
  uniqueItems: [16, flag],
  maxProperties: [17, integer],
  minProperties: [18, integer],
  required: [19, list(text)],
  enum: [20, list(any)],
  additionalProperties: [21, additionalProperties],
  type: [22, within(1, text)],
  items: [23, within(1, schema)],
  properties: [25, map(1, schema)],
  readOnly: [27, flag],
  externalDocs: [29, message({ description: [1, text], url: [2, text] })],
  example: [30, any],
}
const schemaMessage = message(schemaFields, 31)

/** A function, because schemas contain schemas. */
function schema(...field: Parameters<Encode>): void {
  schemaMessage(...field)
}

function additionalProperties(...field: Parameters<Encode>): void {
  const [, , value] = field
  if (typeof value === 'boolean') within(2, flag)(...field)
  else within(1, schema)(...field)
}

/** The fields of parameters, headers and their items, which several messages have in this order. */
const simple: readonly (readonly [name: string, encode: Encode])[] = [
  ['type', text],
  ['format', text],
  ['items', items],
  ['collectionFormat', text],
  ['default', any],
  ['maximum', double],
  ['exclusiveMaximum', flag],
  ['minimum', double],
  ['exclusiveMinimum', flag],
  ['maxLength', integer],
  ['minLength', integer],
  ['pattern', text],
  ['maxItems', integer],
  ['minItems', integer],
  ['uniqueItems', flag],
  ['enum', list(any)],
  ['multipleOf', double],
]

/** @param first the number of the first field */
function simpleFrom(first: number): Fields {
  return Object.fromEntries(simple.map(([name, encode], at) => [name, [first + at, encode]]))
}

const itemsMessage = message(simpleFrom(1), 18)

/** A function, because items contain items. */
function items(...field: Parameters<Encode>): void {
  itemsMessage(...field)
}

const parameterFields: Fields = {
  required: [1, flag],
  in: [2, text],
  description: [3, text],
  name: [4, text],
}
const queryParameter = message({ ...parameterFields, ...simpleFrom(6) }, 23)
const pathParameter = message({ ...parameterFields, ...simpleFrom(5) }, 22)
const bodyParameter = message(
  { description: [1, text], name: [2, text], in: [3, text], required: [4, flag], schema: [5, schema] },
  6,
)

const parameter: Encode = (writer, number, value) => {
  const place = isRecord(value) ? value.in : undefined
  if (place === 'body') within(1, bodyParameter)(writer, number, value)
  else if (place === 'path') within(2, within(4, pathParameter))(writer, number, value)
  else within(2, within(3, queryParameter))(writer, number, value)
}

const header = message({ ...simpleFrom(1), description: [18, text] }, 19)
const response = message(
  { description: [1, text], schema: [2, within(1, schema)], headers: [3, map(1, header)] },
  5,
)

const parameters = list(referenceOr(1, parameter))
const operation = message(
  {
    tags: [1, list(text)],
    summary: [2, text],
    description: [3, text],
    operationId: [5, text],
    produces: [6, list(text)],
    consumes: [7, list(text)],
    parameters: [8, parameters],
    responses: [9, map(1, referenceOr(1, response))],
    deprecated: [11, flag],
  },
  13,
)
const pathItem = message({
  get: [2, operation],
  put: [3, operation],
  post: [4, operation],
  delete: [5, operation],
  patch: [8, operation],
  parameters: [9, parameters],
})
const apiKey = message({ type: [1, text], name: [2, text], in: [3, text] })
const documentFields: Fields = {
  swagger: [1, text],
  info: [2, message({ title: [1, text], version: [2, text] })],
  basePath: [4, text],
  parameters: [10, map(1, parameter)],
  responses: [11, map(1, response)],
  security: [12, list(map(1, within(1, list(text))))],
  securityDefinitions: [13, map(1, within(2, apiKey))],
}

const pathsNumber = 8
const definitionsNumber = 9

export class SwaggerProtobuf implements SwaggerEncoder {
  readonly #others: Uint8Array[] = []
  readonly #paths: Uint8Array[] = []
  readonly #definitions: Uint8Array[] = []

  add({ paths, definitions, ...others }: SwaggerPart): void {
    this.#paths.push(written(writer => pairs(pathItem)(writer, 2, paths)))
    this.#definitions.push(written(writer => pairs(schema)(writer, 1, definitions)))
    this.#others.push(written(writer => writeFields(writer, others, documentFields)))
  }

  end(): Buffer {
    return Buffer.concat([
      ...this.#others,
      ...joined(pathsNumber, this.#paths),
      ...joined(definitionsNumber, this.#definitions),
    ])
  }
}

function written(write: (writer: protobuf.Writer) => void): Uint8Array {
  const writer = protobuf.Writer.create()
  write(writer)
  return writer.finish()
}

/** Returns a field with a message of several parts. */
function joined(number: number, parts: readonly Uint8Array[]): readonly Uint8Array[] {
  const length = parts.reduce((sum, part) => sum + part.length, 0)
  return [written(writer => begin(writer, number, lengthDelimited).uint32(length)), ...parts]
}
