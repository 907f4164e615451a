import { failurePolicy, labelSelector, matchConditions, matchResources } from './match-schemas.ts'

const text = { type: 'string' } as const

/** The schema of `ValidatingAdmissionPolicy`. */
export const policySchema = {
  spec: {
    type: 'object',
    properties: {
      paramKind: {
        type: 'object',
        'x-kubernetes-map-type': 'atomic',
        description: 'The kind of the objects that parameterize the policy.',
        properties: { apiVersion: text, kind: text },
      },
      matchConstraints: { ...matchResources, description: 'The writes that the policy is about.' },
      matchConditions,
      variables: {
        type: 'array',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['name'],
        description: 'CEL expressions that others can use as variables.<name>. One can use those before it.',
        items: {
          type: 'object',
          'x-kubernetes-map-type': 'atomic',
          properties: { name: { ...text, default: '' }, expression: text },
        },
      },
      validations: {
        type: 'array',
        'x-kubernetes-list-type': 'atomic',
        description: 'CEL expressions that are true for a write that is allowed.',
        items: {
          type: 'object',
          properties: {
            expression: {
              ...text,
              description:
                'Can use object, oldObject, request, params, namespaceObject, variables and authorizer.',
            },
            message: { ...text, description: 'What a refusal says, one line.' },
            messageExpression: { ...text, description: 'A CEL expression that makes the message.' },
            reason: {
              ...text,
              description: 'Forbidden, Invalid or RequestEntityTooLarge. Default: Invalid.',
            },
          },
        },
      },
      auditAnnotations: {
        type: 'array',
        'x-kubernetes-list-type': 'atomic',
        description: 'CEL expressions whose texts become annotations of the audit event.',
        items: { type: 'object', properties: { key: text, valueExpression: text } },
      },
      failurePolicy,
    },
  },
  status: {
    type: 'object',
    properties: {
      observedGeneration: { type: 'integer', format: 'int64' },
      typeChecking: {
        type: 'object',
        properties: {
          expressionWarnings: {
            type: 'array',
            'x-kubernetes-list-type': 'atomic',
            items: { type: 'object', properties: { fieldRef: text, warning: text } },
          },
        },
      },
      conditions: {
        type: 'array',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['type'],
        items: {
          type: 'object',
          required: ['type', 'status', 'reason', 'lastTransitionTime'],
          properties: {
            type: text,
            status: { ...text, enum: ['True', 'False', 'Unknown'] },
            observedGeneration: { type: 'integer', format: 'int64' },
            lastTransitionTime: { ...text, format: 'date-time' },
            reason: text,
            message: { ...text, default: '' },
          },
        },
      },
    },
  },
} as const

/** The schema of `ValidatingAdmissionPolicyBinding`. */
export const bindingSchema = {
  spec: {
    type: 'object',
    properties: {
      policyName: { ...text, description: 'The name of the policy. A binding of no policy does nothing.' },
      paramRef: {
        type: 'object',
        'x-kubernetes-map-type': 'atomic',
        description: 'The objects that parameterize the policy here: one by name, or those of a selector.',
        properties: {
          name: text,
          namespace: {
            ...text,
            description: 'Default: the namespace of the object of the write.',
          },
          selector: { ...labelSelector, default: undefined },
          parameterNotFoundAction: {
            ...text,
            description: 'What happens without a parameter: Allow or Deny.',
          },
        },
      },
      matchResources: { ...matchResources, description: 'Narrows the writes that the policy is about.' },
      validationActions: {
        type: 'array',
        'x-kubernetes-list-type': 'set',
        items: text,
        description: 'What a failed validation does: Deny refuses the write, Warn and Audit tell of it.',
      },
    },
  },
} as const
