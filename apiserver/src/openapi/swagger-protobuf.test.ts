import protobuf from 'protobufjs'
import { describe, expect, it } from 'vitest'
import type { SwaggerPart } from './swagger-json.ts'
import { SwaggerProtobuf } from './swagger-protobuf.ts'

/** From gnostic-models, `openapiv2/OpenAPIv2.proto`. `test/kubernetes-go.test.ts` decodes whole documents. */
const { root } = protobuf.parse(`
  syntax = "proto3";
  package openapi.v2;
  message Document { string swagger = 1; Paths paths = 8; Definitions definitions = 9; }
  message Paths { repeated NamedPathItem path = 2; }
  message NamedPathItem { string name = 1; }
  message Definitions { repeated NamedSchema additional_properties = 1; }
  message NamedSchema { string name = 1; Schema value = 2; }
  message Properties { repeated NamedSchema additional_properties = 1; }
  message Schema {
    string _ref = 1; string description = 4; Any default = 5; double maximum = 7; int64 max_length = 11;
    repeated Any enum = 20; AdditionalPropertiesItem additional_properties = 21; TypeItem type = 22;
    Properties properties = 25; repeated NamedAny vendor_extension = 31;
  }
  message AdditionalPropertiesItem { oneof oneof { Schema schema = 1; bool boolean = 2; } }
  message TypeItem { repeated string value = 1; }
  message Any { string yaml = 2; }
  message NamedAny { string name = 1; Any value = 2; }
`)

/** Returns the document of the parts as a client decodes it. */
function decoded(...parts: SwaggerPart[]): unknown {
  const encoder = new SwaggerProtobuf()
  for (const part of parts) encoder.add(part)
  const document = root.lookupType('openapi.v2.Document')
  return document.toObject(document.decode(encoder.end()), { longs: Number })
}

const schemaOf = (value: object) => ({
  paths: {},
  definitions: { additionalProperties: [{ name: 'a', value }] },
})

describe('a Swagger document as protobuf', () => {
  it('has the fields of a schema', () => {
    const document = decoded({
      definitions: {
        a: {
          type: 'object',
          description: 'Some.',
          maximum: 1.5,
          maxLength: 3,
          enum: ['x', null],
          properties: {
            'x-b': { additionalProperties: false },
            c: { additionalProperties: { $ref: '#/d' } },
          },
          'x-kubernetes-list-map-keys': ['id'],
          unknown: 1,
          absent: undefined,
        },
      },
    })
    expect(document).toEqual(
      schemaOf({
        type: { value: ['object'] },
        description: 'Some.',
        maximum: 1.5,
        maxLength: 3,
        enum: [{ yaml: '"x"' }, { yaml: 'null' }],
        properties: {
          additionalProperties: [
            { name: 'x-b', value: { additionalProperties: { boolean: false } } },
            { name: 'c', value: { additionalProperties: { schema: { _ref: '#/d' } } } },
          ],
        },
        vendorExtension: [{ name: 'x-kubernetes-list-map-keys', value: { yaml: '["id"]' } }],
      }),
    )
  })

  it('has the paths and definitions of all of its parts', () => {
    const parts = [
      { swagger: '2.0', paths: { '/a': {} }, definitions: { a: {} } },
      { definitions: { b: {} } },
    ]
    expect(decoded(...parts)).toEqual({
      swagger: '2.0',
      paths: { path: [{ name: '/a' }] },
      definitions: {
        additionalProperties: [
          { name: 'a', value: {} },
          { name: 'b', value: {} },
        ],
      },
    })
  })

  it('has text that a client for Go can decode, whatever a model has', () => {
    const document = decoded({
      definitions: {
        a: { description: 'a\ud800', default: 'b\ud800 \\ud800 \u0085\u2028\ufeff\u007f \ud83d\ude00"' },
      },
    })
    const yaml = String.raw`"b\ufffd \\ud800 \u0085\u2028\ufeff\u007f ${'\ud83d\ude00'}\""`
    expect(document).toEqual(schemaOf({ description: 'a\ufffd', default: { yaml } }))
  })
})
