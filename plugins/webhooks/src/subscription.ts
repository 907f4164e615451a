import {
  conditionsSchema,
  type DeepReadonly,
  defineModel,
  type ObjectOf,
  singleValueIndex,
} from '@setpoint/controller-runtime'

/** The group of the plugin's kinds. */
export const group = 'webhooks.example.com'

/** Limits and defaults of subscriptions. The README repeats them. */
export const subscriptionDefaults = Object.freeze({
  /** Kinds of one subscription. Each is a watch. */
  kinds: 16,
  /** Characters of a URL: a common limit of proxies. */
  urlLength: 2048,
  /** Seconds of one attempt, from the start to the response headers. */
  timeoutSeconds: 10,
  /** Seconds before the first retry. */
  minSeconds: 1,
  /** Longest pause between two attempts, in seconds. */
  maxSeconds: 300,
  /** Failed attempts before a delivery becomes a dead letter: about three quarters of an hour with the defaults. */
  maxAttempts: 20,
  /** Dead letters of one subscription. Beyond it deliveries are retried until there is room. */
  maxDeadLetters: 100,
  /** Seconds that a deleted subscription has to deliver the changes before its deletion. */
  drainSeconds: 60,
})

const version = { type: 'string', pattern: '^(0|[1-9][0-9]{0,18})$' } as const

/** Delivers the changes of kinds to a URL. */
export const Subscription = defineModel({
  group,
  version: 'v1alpha1',
  kind: 'Subscription',
  singular: 'subscription',
  plural: 'subscriptions',
  shortNames: ['sub'],
  schema: {
    spec: {
      type: 'object',
      required: ['kinds', 'url', 'signingKey'],
      example: {
        kinds: [{ apiVersion: 'uptime.example.com/v1alpha1', kind: 'Probe' }],
        url: 'https://hooks.example.com/probes',
        signingKey: 'default',
      },
      properties: {
        kinds: {
          type: 'array',
          minItems: 1,
          maxItems: subscriptionDefaults.kinds,
          description: 'The kinds whose changes are delivered.',
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['apiVersion', 'kind'],
          items: {
            type: 'object',
            required: ['apiVersion', 'kind'],
            properties: {
              apiVersion: {
                type: 'string',
                maxLength: 317,
                pattern: '^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|v1)$',
                description:
                  'The group and version of the kind, for example uptime.example.com/v1alpha1; v1 for the core group.',
              },
              kind: { type: 'string', pattern: '^[A-Z][A-Za-z0-9]{0,62}$' },
              plural: {
                type: 'string',
                pattern: '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$',
                description: 'The name in paths. Default: the kind in lower case and "s".',
              },
              labelSelector: { type: 'string', minLength: 1, maxLength: 4096 },
              fieldSelector: { type: 'string', minLength: 1, maxLength: 4096 },
            },
          },
        },
        url: {
          type: 'string',
          maxLength: subscriptionDefaults.urlLength,
          pattern: '^https?://',
          description: 'Where changes are sent: an http:// or https:// URL without user and password.',
        },
        signingKey: {
          type: 'string',
          minLength: 1,
          maxLength: 63,
          description: 'The name of a key in the setting signingKeys of the plugin.',
        },
        timeoutSeconds: {
          type: 'integer',
          minimum: 1,
          maximum: 60,
          default: subscriptionDefaults.timeoutSeconds,
          description: 'Seconds of one attempt, until the response headers arrive.',
        },
        backoff: {
          type: 'object',
          default: {},
          description: 'Pauses between attempts. They double from the shortest to the longest, with jitter.',
          properties: {
            minSeconds: {
              type: 'number',
              minimum: 0.1,
              maximum: 3600,
              default: subscriptionDefaults.minSeconds,
            },
            maxSeconds: {
              type: 'number',
              minimum: 0.1,
              maximum: 86_400,
              default: subscriptionDefaults.maxSeconds,
            },
          },
          'x-kubernetes-validations': [
            {
              rule: 'self.minSeconds <= self.maxSeconds',
              message: 'maxSeconds is less than minSeconds',
              fieldPath: '.maxSeconds',
            },
          ],
        },
        maxAttempts: {
          type: 'integer',
          minimum: 1,
          maximum: 1000,
          default: subscriptionDefaults.maxAttempts,
          description: 'Failed attempts after which a delivery becomes a DeadLetter.',
        },
        maxDeadLetters: {
          type: 'integer',
          minimum: 0,
          maximum: 1000,
          default: subscriptionDefaults.maxDeadLetters,
          description: 'Once there are this many, deliveries are retried until there is room.',
        },
        drainSeconds: {
          type: 'integer',
          minimum: 0,
          maximum: 600,
          default: subscriptionDefaults.drainSeconds,
          description: 'How long a deletion waits for the delivery of earlier changes.',
        },
        replay: {
          type: 'object',
          required: ['fromVersion'],
          description: 'Setting or changing it delivers all changes after a version again.',
          properties: {
            fromVersion: {
              ...version,
              description: 'The metadata.version to start after. 0: start with the current state.',
            },
            token: {
              type: 'string',
              maxLength: 63,
              description: 'Any text. Change it to replay from the same version again.',
            },
          },
        },
      },
    },
    status: {
      type: 'object',
      properties: {
        observedGeneration: { type: 'integer' },
        cursors: {
          type: 'array',
          description:
            'For each kind, the version up to which every change is settled: delivered or a dead letter.',
          items: {
            type: 'object',
            required: ['apiVersion', 'plural', 'version'],
            properties: { apiVersion: { type: 'string' }, plural: { type: 'string' }, version },
          },
        },
        replayed: {
          type: 'object',
          required: ['fromVersion'],
          description: 'The spec.replay that was started last.',
          properties: { fromVersion: version, token: { type: 'string' } },
        },
        delivered: { type: 'integer', minimum: 0, description: 'Successful deliveries.' },
        pending: { type: 'integer', minimum: 0, description: 'Changes that were read and are not settled.' },
        lagSeconds: { type: 'integer', minimum: 0, description: 'The age of the oldest of them.' },
        lastDeliveryTime: { type: 'string', format: 'date-time' },
        lastError: {
          type: 'object',
          required: ['time', 'message'],
          description: 'The last failed attempt.',
          properties: {
            time: { type: 'string', format: 'date-time' },
            message: { type: 'string' },
            object: { type: 'string', description: 'The kind and name of the object, with its namespace.' },
          },
        },
        conditions: conditionsSchema,
      },
    },
  },
  subresources: { status: true },
  indexes: [
    singleValueIndex({ name: 'spec.url', indexFunc: ({ spec }) => spec.url }),
    singleValueIndex({ name: 'spec.signingKey', indexFunc: ({ spec }) => spec.signingKey }),
  ],
  printerColumns: [
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: 'Delivering', type: 'string', jsonPath: '.status.conditions[?(@.type=="Delivering")].status' },
    { name: 'Pending', type: 'integer', jsonPath: '.status.pending' },
    { name: 'Lag', type: 'integer', jsonPath: '.status.lagSeconds', description: 'Seconds' },
    { name: 'Last delivery', type: 'date', jsonPath: '.status.lastDeliveryTime' },
    { name: 'URL', type: 'string', jsonPath: '.spec.url', priority: 1 },
    { name: 'Error', type: 'string', jsonPath: '.status.lastError.message', priority: 1 },
  ],
  default({ spec }) {
    for (const each of spec.kinds) each.plural ??= `${each.kind.toLowerCase()}s`
  },
  validate({ spec }) {
    const violations: {
      field: string
      message: string
      reason?: 'FieldValueDuplicate' | 'FieldValueForbidden'
    }[] = []
    const problem = problemOfUrl(spec.url)
    if (problem !== undefined) violations.push({ field: 'spec.url', message: problem })
    const seen = new Set<string>()
    for (const [at, each] of spec.kinds.entries()) {
      const field = `spec.kinds[${at}]`
      const [ofGroup] = groupVersionOf(each)
      const resource = ofGroup === '' ? pluralOf(each) : `${pluralOf(each)}.${ofGroup}`
      if (ofGroup === group) {
        const message = 'is a kind of this plugin: each delivery would cause another'
        violations.push({ field: `${field}.apiVersion`, message, reason: 'FieldValueForbidden' })
      } else if (seen.has(resource)) {
        const message = `${resource} is listed twice; combine the selectors, for example with "in"`
        violations.push({ field, message, reason: 'FieldValueDuplicate' })
      }
      seen.add(resource)
    }
    return violations
  },
})

export type SubscriptionObject = ObjectOf<typeof Subscription>
export type SubscriptionSpec = DeepReadonly<SubscriptionObject['spec']>
export type SubscriptionStatus = NonNullable<SubscriptionObject['status']>
/** One of the kinds of a subscription. */
export type SubscribedKind = SubscriptionSpec['kinds'][number]

/** Returns what is wrong with a URL that matches the schema. */
function problemOfUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return 'is not a valid URL'
  const { username, password } = new URL(text)
  return username === '' && password === '' ? undefined : 'must not have a user or password'
}

/** Returns the group, which is empty for the core group, and the version. */
export function groupVersionOf({ apiVersion }: SubscribedKind): [group: string, version: string] {
  const [first = '', version] = apiVersion.split('/')
  return version === undefined ? ['', first] : [first, version]
}

/** The hook `default` sets it; an object may have been stored without. */
export function pluralOf({ kind, plural }: SubscribedKind): string {
  return plural ?? `${kind.toLowerCase()}s`
}

/**
 * Returns the ms until the next attempt after `failures` failures. The pause doubles from the shortest to the longest;
 * the jitter takes away up to half, so that the deliveries that failed together do not return together.
 * @param random in [0, 1)
 */
export function backoffMs(
  { minSeconds, maxSeconds }: SubscriptionSpec['backoff'],
  failures: number,
  random: number,
): number {
  const ms = Math.min(maxSeconds, minSeconds * 2 ** (failures - 1)) * 1000
  return ms * (1 - random / 2)
}
