import { requestLimits } from '../../apiserver/src/http/api-request.ts'
import { decodeDefaults } from '../../apiserver/src/model/decode.ts'
import { jsonPatchDefaults } from '../../apiserver/src/registry/patch.ts'
import { hostileText, numbered, repeat, shapeNames } from './hostile-text.ts'
import type { Fields } from './json.ts'
import { encodeBody, encodeMessage } from './protobuf.ts'

/** Bodies that are hostile to the readers of their content types, at the bounds and past them. */

type Texts = Readonly<Record<string, () => string | Buffer>>

const { maxDepth, maxLongNumbers, maxParts, maxValues, maxYamlBytes } = decodeDefaults
/** Without what is around a hostile value. */
const jsonLength = requestLimits.bodyBytes - 1024
const yamlLength = maxYamlBytes - 1024

/** Returns texts by their names. They begin like the example, so that more than the first fields is read. */
export function textsOf(type: string, example: Fields): Texts {
  const { spec: _, status: __, ...head } = example
  const json = (value: string) => `${JSON.stringify({ ...head, spec: 0 }).slice(0, -2)}${value}}`
  const yaml = (value: string) =>
    [
      ...Object.entries(head).map(([name, each]) => `${name}: ${JSON.stringify(each)}`),
      `spec: ${value}`,
    ].join('\n')
  switch (type) {
    case 'application/vnd.kubernetes.protobuf':
      return protobufTexts(head)
    case 'application/json-patch+json':
      return { ...jsonValues, ...jsonPatches }
    case 'application/strategic-merge-patch+json':
      return { ...wrapped(jsonValues, json), ...strategicPatches }
    case 'application/yaml':
      return wrapped(yamlValues, yaml)
    case 'application/apply-patch+yaml':
      return { ...wrapped(yamlValues, yaml), ...wrapped(jsonValues, json) }
    default:
      return wrapped(jsonValues, json)
  }
}

type Values = Readonly<Record<string, () => string>>

function wrapped(values: Values, wrap: (value: string) => string): Texts {
  return Object.fromEntries(Object.entries(values).map(([name, make]) => [name, () => wrap(make())]))
}

const deepList = '['.repeat(maxDepth - 5) + ']'.repeat(maxDepth - 5)

const jsonValues: Values = {
  'nested lists': () => repeat('[', jsonLength / 2) + repeat(']', jsonLength / 2),
  'nested objects': () => repeat('{"a":', jsonLength),
  'deep lists': () => `[${`${deepList},`.repeat(maxParts / maxDepth)}0]`,
  'all fields that are read': () => `{${numbered(n => `"${n + 10_000}":1,`, 10 * (maxParts - 100))}"a":1}`,
  'a field many times': () => `{${'"a":1,'.repeat(maxParts - 100)}"a":1}`,
  'all lists that are read': () => `[${'[],'.repeat(maxParts - 100)}[]]`,
  'too many objects': () => `[${repeat('{},', jsonLength)}{}]`,
  'all texts that are read': () => `[${numbered(n => `"${n + 100_000}",`, 9 * (maxValues - 100))}""]`,
  'too many texts': () => `[${repeat('"a",', jsonLength)}""]`,
  'too many numbers': () => `[${repeat('1e9,', jsonLength)}1]`,
  'all long numbers that are read': () => `[${'1234567890123456,'.repeat(maxLongNumbers - 100)}1]`,
  'a long number': () => repeat('1', jsonLength),
  'a long text': () => `"${repeat('a', jsonLength)}"`,
  escapes: () => `"${repeat('\\u0041', jsonLength)}"`,
  'a text without an end': () => `"${repeat('\\"', jsonLength)}`,
  blanks: () => `${repeat(' ', jsonLength)}1`,
  'an error at the end': () => `[${'1,'.repeat(maxValues - 100)}]`,
}

const yamlValues: Values = {
  ...Object.fromEntries(shapeNames.map(shape => [shape, () => hostileText(shape, yamlLength, 'a: b')])),
  'lines of a list': () => `\n${repeat('- a\n', yamlLength)}`,
  'lines of a map': () => `\n${numbered(n => `  a${n}: b\n`, yamlLength)}`,
  'lines of a plain text': () => repeat('a\n  ', yamlLength),
  'lines of a block': () => `|\n${repeat('  a\n', yamlLength)}`,
  'nested lists in lines': () => repeat('- ', yamlLength),
  'empty lists': () => `[${repeat('[],', yamlLength)}]`,
  'empty keys': () => repeat('? ', yamlLength),
  anchors: () => `[${numbered(n => `&a${n} b,`, yamlLength)}]`,
  aliases: () => `[&a b,${repeat('*a,', yamlLength)}]`,
  tags: () => `[${repeat('!!str a,', yamlLength)}]`,
  comments: () => `a ${repeat('#', yamlLength)}`,
  documents: () => `a\n${repeat('---\n', yamlLength)}`,
  times: () => `[${repeat('2001-01-01 01:01:01.1 +1:1,', yamlLength)}]`,
  underscores: () => `1${repeat('_', yamlLength)}x`,
}

const list = (length: number) => JSON.stringify(Array.from({ length }, (_, n) => `a${n}`))

/** Returns a JSON patch that adds a list and changes it. */
function patchOf(operation: Fields, value = list(65_000), count = jsonPatchDefaults.maxOperations - 1) {
  const first = `{"op":"add","path":"/metadata/finalizers","value":${value}}`
  return `[${first},${Array(count).fill(JSON.stringify(operation)).join()}]`
}

const path = '/metadata/finalizers'

const jsonPatches: Texts = {
  moves: () => patchOf({ op: 'move', from: `${path}/0`, path: `${path}/-` }),
  insertions: () => patchOf({ op: 'add', path: `${path}/0`, value: 'a' }),
  removals: () => patchOf({ op: 'remove', path: `${path}/0` }),
  tests: () => patchOf({ op: 'test', path, value: ['a0'] }, '["a0"]'),
  copies: () => patchOf({ op: 'copy', from: path, path: '/metadata/annotations' }),
  'copies into itself': () => patchOf({ op: 'copy', from: path, path: `${path}/-` }, '["a"]', 100),
  'deep pointers': () => patchOf({ op: 'test', path: '/a'.repeat(100), value: 1 }, '[]'),
  'a long pointer': () => patchOf({ op: 'add', path: repeat('/a', jsonLength), value: 1 }, '[]', 1),
  'a pointer of escapes': () =>
    patchOf({ op: 'add', path: `/${repeat('~1', jsonLength)}`, value: 1 }, '[]', 1),
  'too many operations': () => patchOf({ op: 'test', path: '', value: 1 }, '[]', 50_000),
}

const strategicPatches: Texts = {
  'a list and its order': () =>
    `{"metadata":{"finalizers":${list(25_000)},"$setElementOrder/finalizers":${list(25_000)}}}`,
  'deletions from a list': () =>
    `{"metadata":{"finalizers":${list(25_000)},"$deleteFromPrimitiveList/finalizers":${list(25_000)}}}`,
  'an item many times': () =>
    `{"metadata":{"ownerReferences":[${'{"uid":"a","name":"b"},'.repeat(9_000)}{"uid":"a"}]}}`,
  'many items': () =>
    `{"metadata":{"ownerReferences":[${numbered(n => `{"uid":"${n}"},`, 140_000)}{"uid":"a"}]}}`,
}

/** Messages of a kind. */
function protobufTexts({ apiVersion, kind }: Fields): Texts {
  const body = (message: Uint8Array) => () =>
    encodeBody({ apiVersion: String(apiVersion), kind: String(kind) }, message)
  const filled = (...bytes: number[]) => Buffer.alloc(jsonLength, Buffer.from(bytes))
  let nested = encodeMessage()
  for (let depth = 0; depth < 2000; depth++) nested = encodeMessage([1, nested])
  return {
    'empty messages': body(filled(0x0a, 0)),
    'empty fields of the metadata': body(encodeMessage([1, filled(0x5a, 0)])),
    'unknown fields': body(filled(0x78, 1)),
    'groups without an end': body(filled(0x0b)),
    'a number without an end': body(filled(0xff)),
    'nested messages': body(nested),
  }
}
