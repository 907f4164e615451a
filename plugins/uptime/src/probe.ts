import { defineModel, multiValueIndex, type ObjectOf, singleValueIndex } from '@setpoint/controller-runtime'

/** Bounds and defaults of probes, in one place; the schema below and the README repeat them to people. */
export const probeDefaults = Object.freeze({
  /** Between the starts of two checks. */
  intervalSeconds: 60,
  /** For one check, from the connection to the head of the answer. */
  timeoutSeconds: 10,
  /** Checks that a status remembers: with them an object stays at about three kilobytes. */
  historyLength: 20,
  /** Characters of a URL, as many as browsers and proxies agree on. */
  urlLength: 2048,
})

/** How a probe stands. Unknown: not checked yet, or the URL cannot be requested at all, which says nothing of its server. */
export const probeStates = ['Up', 'Down', 'Unknown'] as const
export type ProbeState = (typeof probeStates)[number]

/** Why a probe stands as it does: stable words, for programs. `message` says the same to people. */
export const checkReasons = [
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
] as const
export type CheckReason = (typeof checkReasons)[number]

/** A URL that is requested at an interval; its status says what was found. */
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
      properties: {
        url: {
          type: 'string',
          maxLength: probeDefaults.urlLength,
          pattern: '^https?://',
          // A rule of its own, so that each message names what is wrong: a host, no user and password (which do not
          // belong into an object that everybody reads), no spaces.
          allOf: [{ pattern: '^[^:]*://[^\\s/?#@]+([/?#]\\S*)?$' }],
          description: 'What to request: an http:// or https:// URL without user and password.',
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
          description: 'Seconds that a check may take; where the interval is shorter, the interval counts.',
        },
        expectStatus: {
          type: 'integer',
          minimum: 100,
          maximum: 599,
          description: 'The HTTP status that counts as up. Without it: any from 200 to 399.',
        },
        tags: {
          type: 'array',
          maxItems: 32,
          items: { type: 'string', minLength: 1, maxLength: 63 },
          description: 'Words to find probes by.',
        },
      },
    },
    status: {
      type: 'object',
      properties: {
        state: { type: 'string', enum: probeStates },
        reason: { type: 'string', enum: checkReasons, description: 'Why, in one word for programs.' },
        message: { type: 'string', description: 'Why, for people.' },
        httpStatus: { type: 'integer', description: 'Status of the answer, where one came.' },
        latencyMs: { type: 'integer', description: 'Milliseconds until the head of the answer had come.' },
        lastCheckTime: { type: 'string', format: 'date-time', description: 'When the last check began.' },
        lastTransitionTime: {
          type: 'string',
          format: 'date-time',
          description: 'When the check began that found the present state first.',
        },
        consecutiveFailures: {
          type: 'integer',
          minimum: 0,
          description: 'Checks in a row that were not Up.',
        },
        observedGeneration: {
          type: 'integer',
          description: 'The metadata.generation whose spec was checked last.',
        },
        history: {
          type: 'array',
          maxItems: probeDefaults.historyLength,
          description: 'The last checks, the newest first.',
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
    // So that a probe that nobody has looked at yet is found, too.
    singleValueIndex({ name: 'status.state', indexFunc: probe => probe.status?.state ?? 'Unknown' }),
  ],
  printerColumns: [
    { name: 'State', type: 'string', jsonPath: '.status.state' },
    { name: 'Status', type: 'integer', jsonPath: '.status.httpStatus' },
    { name: 'Latency', type: 'integer', jsonPath: '.status.latencyMs', description: 'Milliseconds' },
    { name: 'Last check', type: 'date', jsonPath: '.status.lastCheckTime' },
    { name: 'URL', type: 'string', jsonPath: '.spec.url', priority: 1 },
  ],
})

export type ProbeObject = ObjectOf<typeof Probe>
export type ProbeStatus = NonNullable<ProbeObject['status']>

/** Milliseconds between the starts of two checks. */
export function intervalMs({ spec }: ProbeObject): number {
  return (spec.intervalSeconds ?? probeDefaults.intervalSeconds) * 1000
}

/** Milliseconds that a check may take: never longer than the interval, or checks would run into each other. */
export function timeoutMs(probe: ProbeObject): number {
  return Math.min((probe.spec.timeoutSeconds ?? probeDefaults.timeoutSeconds) * 1000, intervalMs(probe))
}
