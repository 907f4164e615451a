import { defineModel, type ObjectOf } from '../api/model.ts'

/** The kind for leader election: Kubernetes' `coordination.k8s.io/v1`. A built-in kind of the server. */
export const Lease = defineModel({
  group: 'coordination.k8s.io',
  version: 'v1',
  kind: 'Lease',
  singular: 'lease',
  plural: 'leases',
  scope: 'Namespaced',
  names: 'dns-subdomain',
  schema: {
    spec: {
      type: 'object',
      description: 'Who holds the lease, and for how long.',
      properties: {
        holderIdentity: {
          type: 'string',
          description: 'The identity of the holder; empty or absent if the lease is free.',
        },
        leaseDurationSeconds: {
          type: 'integer',
          format: 'int32',
          minimum: 1,
          description:
            'How long candidates wait, after they last saw the lease change, before they acquire it.',
        },
        acquireTime: {
          type: 'string',
          format: 'date-time',
          description: "When the holder acquired it, by the holder's clock. Informational only.",
        },
        renewTime: {
          type: 'string',
          format: 'date-time',
          description: "When the holder last renewed it, by the holder's clock. Informational only.",
        },
        leaseTransitions: {
          type: 'integer',
          format: 'int32',
          minimum: 0,
          description: 'The number of changes of the holder.',
        },
        strategy: {
          type: 'string',
          description: 'How the leader is chosen in a coordinated election. The server does not use it.',
        },
        preferredHolder: {
          type: 'string',
          description: 'To whom the holder should hand the lease over. Only with a strategy.',
        },
      },
    },
  },
  printerColumns: [
    { name: 'Holder', type: 'string', jsonPath: '.spec.holderIdentity' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
})

/** Records which process may act, and for how long. */
export type Lease = ObjectOf<typeof Lease>
