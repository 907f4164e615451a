import { describe, expect, expectTypeOf, test } from 'vitest'
import { RouteBuilder, type RouteParams, type RouteRequest } from './routes.ts'

/** The types are checked by the compiler (`tsc -p test`). */
describe('the params of a route', () => {
  test('have the names of its pattern and no others', () => {
    expectTypeOf<RouteParams<'/gadgets/:name/summary'>>().toEqualTypeOf<{ readonly name: string }>()
    expectTypeOf<RouteParams<'/shelves/:shelf_1/:name2'>>().toEqualTypeOf<{
      readonly shelf_1: string
      readonly name2: string
    }>()
    expectTypeOf<RouteParams<'/summary'>>().toEqualTypeOf<Readonly<Record<never, string>>>()
    const { routes } = new RouteBuilder()
      .get('/gadgets/:name/summary', ({ params }) => {
        expectTypeOf(params).toEqualTypeOf<{ readonly name: string }>()
        // @ts-expect-error: the pattern has no such parameter
        return { body: [params.name, params.id] }
      })
      .build('console.api.demo.example.com/v1')
    expect(routes).toHaveLength(1)
  })

  test('may stand next to other characters, match the rest of the path, or be optional', () => {
    expectTypeOf<RouteParams<'/:from-:to.json'>>().toEqualTypeOf<{
      readonly from: string
      readonly to: string
    }>()
    expectTypeOf<RouteParams<'/files/:owner/*path'>>().toEqualTypeOf<{
      readonly owner: string
      readonly path: string
    }>()
    expectTypeOf<RouteParams<'/gadgets/:name{/:part}'>>().toExtend<{ name: string; part?: string }>()
    expectTypeOf<RouteParams<'/gadgets{/:name}'>['name']>().toEqualTypeOf<string | undefined>()
  })

  test('of a pattern that is known only at run time may each be absent', () => {
    expectTypeOf<RouteRequest['params']['name']>().toEqualTypeOf<string | undefined>()
  })
})
