import { defineModel, singleValueIndex } from '@setpoint/controller-runtime'

/** Calls of the conversions of `Gadget`, counted by the tests. */
export const calls = { toHub: 0, fromHub: 0 }

/**
 * A kind with three versions. v1beta1 has the size as a text, and no unit. Its conversions throw for the sizes 13 (from
 * the hub) and 14 (to the hub). v1alpha1 equals the hub.
 */
export const Gadget = defineModel({
  group: 'versions.example.com',
  version: 'v1',
  kind: 'Gadget',
  singular: 'gadget',
  plural: 'gadgets',
  schema: {
    spec: {
      type: 'object',
      required: ['size'],
      properties: {
        size: { type: 'integer', maximum: 100 },
        unit: { type: 'string' },
        colour: { type: 'string', default: 'red' },
      },
    },
    status: { type: 'object', properties: { ready: { type: 'boolean' } } },
  },
  subresources: { status: true },
  indexes: [singleValueIndex({ name: 'spec.size', indexFunc: ({ spec }) => String(spec.size) })],
  versions: [
    {
      name: 'v1beta1',
      deprecated: 'use v1',
      schema: {
        spec: {
          type: 'object',
          required: ['text'],
          properties: { text: { type: 'string', maxLength: 4 }, shade: { type: 'string', default: 'blue' } },
        },
        status: { type: 'object', properties: { phase: { type: 'string', enum: ['Ready', 'Pending'] } } },
      },
      toHub: ({ spec, status }, { previous }) => {
        calls.toHub++
        if (spec.text === '14') throw new Error('no to 14')
        return {
          spec: { size: Number(spec.text), colour: spec.shade, unit: previous?.spec.unit },
          status: status && { ready: status.phase === 'Ready' },
        }
      },
      fromHub: ({ spec, status }) => {
        calls.fromHub++
        if (spec.size === 13) throw new Error('no to 13')
        return {
          spec: { text: String(spec.size), shade: spec.colour },
          status: status && { phase: status.ready ? ('Ready' as const) : ('Pending' as const) },
        }
      },
    },
    {
      name: 'v1alpha1',
      schema: {
        spec: {
          type: 'object',
          properties: { size: { type: 'integer' }, unit: { type: 'string' }, colour: { type: 'string' } },
        },
      },
      toHub: ({ spec, status }) => ({ spec: { ...spec, size: spec.size ?? 0 }, status }),
      fromHub: ({ spec, status }) => ({ spec, status }),
    },
  ],
})
