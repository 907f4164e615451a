import { defineBuiltInModel } from '@setpoint/controller-runtime/internal'
import { ageColumn, type Fields, recordOf, recordsOf, textOf } from '../../../kubernetes/index.ts'
import { deepEqual } from '../../../model/index.ts'
import { type AdmissionKind, admissionModel, admissionRules } from './admission-kind.ts'
import { findingsOfBinding } from './binding-problems.ts'
import type { ParamAccess } from './param-access.ts'
import { findingsOfPolicy, findingsOfPolicyStatus } from './policy-problems.ts'
import { bindingSchema, policySchema } from './policy-schemas.ts'
import { complete, shapeOf } from './shape.ts'

const policyShape = shapeOf(policySchema)
const bindingShape = shapeOf(bindingSchema)

/** `ValidatingAdmissionPolicy`: expressions that may refuse writes, where bindings put the policy in force. */
export function policyKind(access: ParamAccess): AdmissionKind {
  return {
    model: defineBuiltInModel({
      ...admissionModel,
      kind: 'ValidatingAdmissionPolicy',
      singular: 'validatingadmissionpolicy',
      plural: 'validatingadmissionpolicies',
      schema: policySchema,
      subresources: { status: true },
    }),
    rules: {
      ...admissionRules(policyShape, async ({ metadata, ...content }, previous, { scope, user }) => {
        const { spec, status }: Fields = content
        if (scope === 'status') return findingsOfPolicyStatus(recordOf(status)).violations
        const found = await findingsOfPolicy(recordOf(spec), metadata.name)
        const { paramKind } = recordOf(spec)
        const isSame = deepEqual(paramKind, recordOf(previous?.spec).paramKind)
        if (found.isEmpty && paramKind !== undefined && !isSame) {
          const refusal = access.refusalOfKind(recordOf(paramKind), user)
          if (refusal !== undefined) found.forbidden('spec.paramKind', refusal)
        }
        return found.violations
      }),
      created(draft) {
        draft.status = {}
        complete(policyShape, draft)
      },
      columns: [
        {
          name: 'Validations',
          type: 'integer',
          description: 'The number of validations.',
          cell: ({ spec }) => recordsOf(recordOf(spec).validations).length,
        },
        {
          name: 'ParamKind',
          type: 'string',
          description: 'The kind of the parameters.',
          cell: ({ spec }) => {
            const { paramKind } = recordOf(spec)
            const { apiVersion, kind } = recordOf(paramKind)
            return paramKind === undefined ? '<unset>' : `${textOf(apiVersion)}/${textOf(kind)}`
          },
        },
        ageColumn,
      ],
    },
    shape: policyShape,
  }
}

/** `ValidatingAdmissionPolicyBinding`: puts a policy in force. */
export function bindingKind(access: ParamAccess): AdmissionKind {
  return {
    model: defineBuiltInModel({
      ...admissionModel,
      kind: 'ValidatingAdmissionPolicyBinding',
      singular: 'validatingadmissionpolicybinding',
      plural: 'validatingadmissionpolicybindings',
      schema: bindingSchema,
    }),
    rules: {
      ...admissionRules(bindingShape, (object, previous, { user }) => {
        const spec = recordOf(object.spec)
        const found = findingsOfBinding(spec)
        const { paramRef, policyName } = spec
        const before = recordOf(previous?.spec)
        const isSame = deepEqual(paramRef, before.paramRef) && policyName === before.policyName
        if (found.isEmpty && paramRef !== undefined && !isSame) {
          const refusal = access.refusalOfRef(recordOf(paramRef), textOf(policyName), user)
          if (refusal !== undefined) found.forbidden('spec.paramRef', refusal)
        }
        return found.violations
      }),
      columns: [
        {
          name: 'PolicyName',
          type: 'string',
          description: 'The name of the policy.',
          cell: ({ spec }) => recordOf(spec).policyName,
        },
        {
          name: 'ParamRef',
          type: 'string',
          description: 'The parameters of the policy.',
          cell: ({ spec }) => textOfRef(recordOf(spec).paramRef),
        },
        ageColumn,
      ],
    },
    shape: bindingShape,
  }
}

function textOfRef(value: unknown): string {
  const { name, namespace, selector } = recordOf(value)
  if (value === undefined) return '<unset>'
  if (textOf(name) === '') return JSON.stringify(selector)
  return `${textOf(namespace) || '*'}/${textOf(name)}`
}
