import type { Schema } from '../api/schema.ts'

const text = (description: string) => ({ type: 'string', description }) as const satisfies Schema

/** Returns the schema of Kubernetes' ObjectReference. */
export function objectReference(description: string) {
  return {
    type: 'object',
    description,
    properties: {
      apiVersion: text('The API version of the object.'),
      kind: text('The kind of the object.'),
      namespace: text('The namespace of the object.'),
      name: text('The name of the object.'),
      uid: text('The uid of the object.'),
      resourceVersion: text('The version of the object that is meant.'),
      fieldPath: text('The part of the object that is meant.'),
    },
    'x-kubernetes-map-type': 'atomic',
  } as const satisfies Schema
}
