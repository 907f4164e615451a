import type { Difference } from './differences.ts'

/** The responses about definitions, their objects and their conversion that differ from the recorded ones. */
export const definitionDifferences: readonly Difference[] = [
  {
    says: 'The cost of a CEL rule is bounded when it runs (422 beyond the bound), and not estimated when the definition is stored.',
    page: 'definitions.md',
    responses: {
      'messages, reasons and paths of rules are validated: an expression for the message': 201,
      'rules that cost too much: a list without a bound': 201,
      'rules that cost too much: three nested loops': 201,
    },
  },
  {
    says: 'A response has no warnings about a request that is refused, or about violations that stay as they are.',
    page: 'definitions.md',
    responses: {
      'the group and the scope of a definition are validated: a version as before v1': 422,
      'values are checked by the schema of a definition: an object for a list': 422,
      'rules decide about objects: a rule and an unknown field': 422,
      'rules of stored values may stay broken: a label': 200,
      'rules of stored values may stay broken: the field with the broken rule': 422,
      'rules of stored values may stay broken: a part of the object with the broken rule': 422,
      'rules of stored values may stay broken: a transition rule': 422,
      'objects of a definition are patched: JSON patch: copy': 422,
    },
  },
  {
    says: 'A JSON patch that does not apply is refused with the place as a cause, and `replace` needs a value to replace.',
    page: 'definitions.md',
    responses: {
      'a definition is changed: a JSON patch that fails': 422,
      'unknown fields of a definition are pruned: a JSON patch that tests an unknown field': 422,
      'objects of a definition are patched: JSON patch: add to a missing parent': 422,
      'objects of a definition are patched: JSON patch: replace what is missing': 422,
      'objects of a definition are patched: JSON patch: remove what is missing': 422,
      'objects of a definition are patched: JSON patch: a test that fails': 422,
      'objects of a definition are patched: JSON patch: an unknown operation': 400,
    },
  },
  {
    says: 'An unknown value of `fieldValidation`, and an unknown field in a strict patch of a definition, are refused with 400.',
    page: 'definitions.md',
    responses: {
      'a definition is changed: an unknown field, strict': 400,
      'unknown fields of a definition are pruned: unknown fields: Sometimes': 400,
      'unknown fields of a definition are pruned: duplicate fields: Sometimes': 400,
    },
  },
  {
    says: 'other methods are refused with 405',
    page: 'namespaces.md',
    responses: {
      'objects of a definition have names: in all namespaces': 405,
      'collections of a definition are deleted: in all namespaces': 405,
    },
  },
  {
    says: 'An apply may have fields that the stored version, or the definition of definitions, does not declare: they are removed.',
    page: 'definitions.md',
    responses: {
      'a definition is applied: an unknown field': 200,
      'a definition is applied: read': 200,
      'the status of a definition is applied: read': 200,
      'managed fields have the version of their apply: at v2': 200,
      'managed fields have the version of their apply: the first at v2': 200,
      'an object has several versions without a conversion: applied at v2': 200,
    },
  },
  {
    says: 'Field selectors also take comparisons and sets.',
    page: 'definitions.md',
    responses: {
      'lists select by fields of a definition: another operator': 200,
    },
  },
  {
    says: 'The table of definitions has the time of their creation as a text.',
    page: 'definitions.md',
    responses: {
      'a definition is established: in a table': 200,
    },
  },
  {
    says: 'An apply to the status without a status takes away what its manager had there.',
    page: 'definitions.md',
    responses: {
      'the status of a definition is applied: a label through the status': 200,
    },
  },
  {
    says: 'Unknown fields of a scale are ignored.',
    page: 'definitions.md',
    responses: {
      'objects of a definition are scaled: an unknown field': 200,
    },
  },
  {
    says: 'With a conversion webhook, selectors, sorts and indexes see objects at the storage version, also their labels.',
    page: 'definitions.md',
    responses: {
      'objects are converted by a webhook: by a field of v2': 400,
      'objects are watched through a webhook: by a field of v2': 400,
      'a webhook may change labels and annotations: by the label of the webhook': 200,
    },
  },
  {
    says: 'A write in another version whose only news is lost in its conversion changes nothing.',
    page: 'definitions.md',
    responses: { 'a version has a default that the stored one lacks: no change at v2': 200 },
  },
  {
    says: 'A failing conversion webhook does not prevent a deletion, or the removal of a finalizer.',
    page: 'definitions.md',
    responses: {
      'a conversion webhook fails: a deletion that fails': 200,
      'a conversion webhook fails: a deletion at the stored version': 404,
    },
  },
]

/** The same for policies and webhooks of admission. */
export const admissionDifferences: readonly Difference[] = [
  {
    says: "Columns have types and descriptions of Setpoint's own.",
    page: 'kubernetes-clients.md',
    responses: {
      'ValidatingAdmissionPolicy: its life: a table': 200,
      'ValidatingAdmissionPolicyBinding: its life: a table': 200,
      'ValidatingWebhookConfiguration: its life: a table': 200,
      'MutatingWebhookConfiguration: its life: a table': 200,
    },
  },
  {
    says: 'Unknown fields are kept, except in the metadata.',
    page: 'api.md',
    responses: {
      'a mutating webhook changes objects: an unknown field': 201,
    },
  },
]
