import { defineModel, type Model } from '@setpoint/controller-runtime'
import type { World, WorldRequest, WorldResponse } from './world.ts'

/** @param onValidate runs in the server before each write */
export function widgetModel(onValidate = () => {}): Model {
  return defineModel({
    group: 'world.example.com',
    version: 'v1',
    kind: 'Widget',
    singular: 'widget',
    plural: 'widgets',
    scope: 'Namespaced',
    schema: { spec: { type: 'object', properties: { size: { type: 'integer' } } } },
    validate: () => {
      onValidate()
      return []
    },
  })
}

export const widgets = '/apis/world.example.com/v1/namespaces/default/widgets'

export const creation = (name: string, size = 1): WorldRequest => ({
  method: 'POST',
  path: widgets,
  body: { apiVersion: 'world.example.com/v1', kind: 'Widget', metadata: { name }, spec: { size } },
})

/** Sends a request of `anna` and lets time pass until it has a response. */
export async function call(world: World, server: number, request: WorldRequest): Promise<WorldResponse> {
  let isOver = false
  const response = world.request('anna', server, request).finally(() => {
    isOver = true
  })
  response.catch(() => {})
  while (!isOver) await world.advance(1)
  return response
}
