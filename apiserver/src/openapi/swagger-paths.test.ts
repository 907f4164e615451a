import { describe, expect, it } from 'vitest'
import { OperationIds, refTo } from './names.ts'
import { type DescribedRoute, routePaths } from './route-paths.ts'
import { swaggerPaths } from './swagger-paths.ts'

const schema = { type: 'string' }

/** Converts one operation. */
const converted = (operation: object) => swaggerPaths({ '/a': { put: operation } })['/a']

describe('an operation in Swagger 2.0', () => {
  it('has its body as a parameter, and the media types of its body and its responses', () => {
    const media = { schema: refTo('schemas', 'A'), examples: {} }
    const operation = {
      operationId: 'putA',
      parameters: [refTo('parameters', 'dryRun')],
      requestBody: { required: true, content: { 'application/json': media, 'application/yaml': media } },
      responses: {
        '200': {
          description: 'A.',
          headers: { Location: { description: 'Where.', schema } },
          content: { 'application/json': media, 'text/event-stream': { schema: refTo('schemas', 'B') } },
        },
        '404': refTo('responses', 'Status404'),
      },
      'x-kubernetes-action': 'put',
    }
    expect(converted(operation)).toEqual({
      put: {
        operationId: 'putA',
        consumes: ['application/json', 'application/yaml'],
        produces: ['application/json', 'text/event-stream'],
        parameters: [
          { $ref: '#/parameters/dryRun' },
          { name: 'body', in: 'body', required: true, schema: { $ref: '#/definitions/A' } },
        ],
        responses: {
          '200': {
            description: 'A.',
            schema: { $ref: '#/definitions/A' },
            headers: { Location: { description: 'Where.', type: 'string' } },
          },
          '404': { $ref: '#/responses/Status404' },
        },
        'x-kubernetes-action': 'put',
      },
    })
  })

  it('takes any body if the schemas of its media types differ', () => {
    const requestBody = { content: { 'a/b': { schema }, 'c/d': { schema: { type: 'array', items: {} } } } }
    expect(converted({ requestBody, responses: {} })).toMatchObject({
      put: { consumes: ['a/b', 'c/d'], parameters: [{ name: 'body', in: 'body', schema: {} }] },
    })
  })

  it('has the schema of a parameter in the parameter itself', () => {
    const sort = { name: 'sort', in: 'query', schema: { type: 'array', items: schema, maxItems: 4 } }
    const parameters = [{ ...sort, style: 'form', explode: true, example: ['a'] }]
    expect(converted({ parameters, responses: {} })).toMatchObject({
      put: {
        parameters: [
          { name: 'sort', in: 'query', type: 'array', items: schema, maxItems: 4, collectionFormat: 'multi' },
        ],
      },
    })
  })

  it("may be a plugin's route", () => {
    const route: DescribedRoute = {
      plugin: 'p',
      groupVersion: 'api.example.com/v1',
      method: 'POST',
      pattern: '/things/:name',
      summary: undefined,
    }
    const paths = swaggerPaths(routePaths([route], new OperationIds()))
    expect(paths['/apis/api.example.com/v1/things/{name}']).toMatchObject({
      parameters: [{ name: 'name', in: 'path', required: true, type: 'string' }],
      post: {
        consumes: ['application/json'],
        produces: ['application/json'],
        parameters: [{ name: 'body', in: 'body', schema: {} }],
        responses: { '200': { schema: {} }, '403': { $ref: '#/responses/Status403' } },
      },
    })
  })
})
