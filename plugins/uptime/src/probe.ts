import {
  type DeepReadonly,
  defineModel,
  multiValueIndex,
  type ObjectOf,
  singleValueIndex,
} from '@setpoint/controller-runtime'

/** Limits and defaults of probes. The schema below and the README repeat them. */
export const probeDefaults = Object.freeze({
  /** Seconds between the starts of two checks. */
  intervalSeconds: 60,
  /** Timeout of one check in seconds, until the response headers arrive. */
  timeoutSeconds: 10,
  /** Checks in the history, which keeps an object at about three kilobytes. */
  historyLength: 20,
  /** Characters of a URL: a common limit of browsers and proxies. */
  urlLength: 2048,
})

/** The state of a probe. Unknown: not checked yet, or the URL cannot or must not be requested. */
export const probeStates = ['Up', 'Down', 'Unknown'] as const
export type ProbeState = (typeof probeStates)[number]

/** The reason for the state: stable words for programs. `message` explains it to people. */
const checkReasons = [
  'Answered',
  'UnexpectedStatus',
  'TimedOut',
  'ConnectionRefused',
  'ConnectionLost',
  'HostNotFound',
  'Unreachable',
  'TlsFailed',
  'RequestFailed',
  'NotRequestable',
  'Denied',
] as const
export type CheckReason = (typeof checkReasons)[number]

/** A URL that is requested at an interval, with the results in its status. */
export const Probe = defineModel({
  group: 'uptime.example.com',
  version: 'v1alpha1',
  kind: 'Probe',
  singular: 'probe',
  plural: 'probes',
  schema: {
    spec: {
      type: 'object',
      required: ['url'],
      example: { url: 'https://example.com/', intervalSeconds: 60, tags: ['shop'] },
      properties: {
        url: {
          type: 'string',
          maxLength: probeDefaults.urlLength,
          pattern: '^https?://',
          // A rule of its own for a precise message: a host, no user and password (which must not be in an object that
          // everyone can read), no spaces.
          allOf: [{ pattern: '^[^:]*://[^\\s/?#@]+([/?#]\\S*)?$' }],
          description: 'The URL to request: an http:// or https:// URL without user and password.',
        },
        intervalSeconds: {
          type: 'integer',
          minimum: 5,
          maximum: 86_400,
          default: probeDefaults.intervalSeconds,
          description: 'Seconds between the starts of two checks.',
        },
        timeoutSeconds: {
          type: 'integer',
          minimum: 1,
          maximum: 60,
          default: probeDefaults.timeoutSeconds,
          description: 'Timeout of a check in seconds; at most the interval.',
        },
        expectStatus: {
          type: 'integer',
          minimum: 100,
          maximum: 599,
          description: 'The HTTP status that counts as up. Default: 200 to 399.',
        },
        tags: {
          type: 'array',
          maxItems: 32,
          items: { type: 'string', minLength: 1, maxLength: 63 },
          description: 'Words for finding probes.',
        },
      },
    },
    status: {
      type: 'object',
      properties: {
        state: { type: 'string', enum: probeStates },
        reason: { type: 'string', enum: checkReasons, description: 'Machine-readable reason.' },
        message: { type: 'string', description: 'Human-readable reason.' },
        httpStatus: { type: 'integer', description: 'The HTTP status, if there was a response.' },
        latencyMs: { type: 'integer', description: 'Milliseconds until the response headers arrived.' },
        lastCheckTime: { type: 'string', format: 'date-time', description: 'The start of the last check.' },
        lastTransitionTime: {
          type: 'string',
          format: 'date-time',
          description: 'The start of the check that first found the current state.',
        },
        consecutiveFailures: {
          type: 'integer',
          minimum: 0,
          description: 'Consecutive checks that were not Up.',
        },
        observedGeneration: {
          type: 'integer',
          description: 'The metadata.generation that was last checked.',
        },
        history: {
          type: 'array',
          maxItems: probeDefaults.historyLength,
          description: 'The last checks, newest first.',
          items: {
            type: 'object',
            required: ['time', 'state', 'reason'],
            properties: {
              time: { type: 'string', format: 'date-time' },
              state: { type: 'string', enum: probeStates },
              reason: { type: 'string', enum: checkReasons },
              httpStatus: { type: 'integer' },
              latencyMs: { type: 'integer' },
            },
          },
        },
      },
    },
  },
  subresources: { status: true },
  indexes: [
    singleValueIndex({ name: 'spec.url', unique: true, indexFunc: probe => probe.spec.url }),
    multiValueIndex({ name: 'spec.tags', indexFunc: probe => probe.spec.tags ?? [] }),
    // Includes probes that have not been checked yet.
    singleValueIndex({ name: 'status.state', indexFunc: probe => probe.status?.state ?? 'Unknown' }),
  ],
  printerColumns: [
    { name: 'State', type: 'string', jsonPath: '.status.state' },
    { name: 'Reason', type: 'string', jsonPath: '.status.reason' },
    { name: 'Status', type: 'integer', jsonPath: '.status.httpStatus' },
    { name: 'Latency', type: 'integer', jsonPath: '.status.latencyMs', description: 'Milliseconds' },
    { name: 'Last check', type: 'date', jsonPath: '.status.lastCheckTime' },
    { name: 'URL', type: 'string', jsonPath: '.spec.url', priority: 1 },
  ],
})

export type ProbeObject = ObjectOf<typeof Probe>
export type ProbeStatus = NonNullable<ProbeObject['status']>

/** Milliseconds between the starts of two checks. */
export function intervalMs({ spec }: DeepReadonly<ProbeObject>): number {
  return spec.intervalSeconds * 1000
}

/** Timeout of a check in ms; at most the interval, so that checks do not overlap. */
export function timeoutMs(probe: DeepReadonly<ProbeObject>): number {
  return Math.min(probe.spec.timeoutSeconds * 1000, intervalMs(probe))
}
