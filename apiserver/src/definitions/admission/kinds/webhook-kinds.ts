import { defineBuiltInModel } from '@setpoint/controller-runtime/internal'
import { ageColumn, recordOf, recordsOf } from '../../../kubernetes/index.ts'
import { type AdmissionKind, admissionModel, admissionRules } from './admission-kind.ts'
import { webhookFields } from './match-schemas.ts'
import { shapeOf } from './shape.ts'
import { findingsOfWebhooks } from './webhook-problems.ts'

const webhooksOf = <const Item extends object>(properties: Item) =>
  ({
    type: 'array',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['name'],
    items: { type: 'object', properties },
  }) as const

const mutatingSchema = {
  webhooks: webhooksOf({
    ...webhookFields,
    reinvocationPolicy: {
      type: 'string',
      default: 'Never',
      description: 'IfNeeded: the webhook is called a second time if others change the object after it.',
    },
  }),
} as const

const validatingSchema = { webhooks: webhooksOf(webhookFields) } as const

const mutatingShape = shapeOf(mutatingSchema)
const validatingShape = shapeOf(validatingSchema)

const columns = [
  {
    name: 'Webhooks',
    type: 'integer',
    description: 'The number of webhooks.',
    cell: ({ webhooks }: Readonly<Record<string, unknown>>) => recordsOf(webhooks).length,
  },
  ageColumn,
] as const

async function violationsOf(object: object, isMutating: boolean) {
  return (await findingsOfWebhooks(recordOf(object).webhooks, isMutating)).violations
}

/** `MutatingWebhookConfiguration`: webhooks that may change objects before they are stored. */
export const mutatingConfiguration: AdmissionKind = {
  model: defineBuiltInModel({
    ...admissionModel,
    kind: 'MutatingWebhookConfiguration',
    singular: 'mutatingwebhookconfiguration',
    plural: 'mutatingwebhookconfigurations',
    schema: mutatingSchema,
  }),
  rules: {
    ...admissionRules(mutatingShape, object => violationsOf(object, true)),
    columns,
  },
  shape: mutatingShape,
}

/** `ValidatingWebhookConfiguration`: webhooks that may refuse writes. */
export const validatingConfiguration: AdmissionKind = {
  model: defineBuiltInModel({
    ...admissionModel,
    kind: 'ValidatingWebhookConfiguration',
    singular: 'validatingwebhookconfiguration',
    plural: 'validatingwebhookconfigurations',
    schema: validatingSchema,
  }),
  rules: {
    ...admissionRules(validatingShape, object => violationsOf(object, false)),
    columns,
  },
  shape: validatingShape,
}
