/** Returns the schema of Kubernetes' ObjectReference. */
export function objectReference(description: string) {
  return {
    type: 'object',
    description,
    properties: {
      apiVersion: { type: 'string', description: 'The API version of the object.' },
      kind: { type: 'string', description: 'The kind of the object.' },
      namespace: { type: 'string', description: 'The namespace of the object.' },
      name: { type: 'string', description: 'The name of the object.' },
      uid: { type: 'string', description: 'The uid of the object.' },
      resourceVersion: { type: 'string', description: 'The version of the object that is meant.' },
      fieldPath: { type: 'string', description: 'The part of the object that is meant.' },
    },
    'x-kubernetes-map-type': 'atomic',
  } as const
}
