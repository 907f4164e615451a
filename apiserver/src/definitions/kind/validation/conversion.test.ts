import { describe, expect, test } from 'vitest'
import {
  definitionWith,
  refusals,
  refusalsOfChange,
  stored,
  withSpec,
} from '../../../testing/test-definition.ts'

const place = 'spec.conversion.webhookClientConfig'

const converting = (conversion: object) => definitionWith(withSpec({ conversion: { ...conversion } }))
const hook = (clientConfig: object, conversionReviewVersions = ['v1']) =>
  converting({ strategy: 'Webhook', webhook: { clientConfig, conversionReviewVersions } })
const service = (more: object) => hook({ service: { name: 'a', namespace: 'b', ...more } })

test.each([
  ['None', converting({ strategy: 'None' })],
  ['a webhook at a URL', hook({ url: 'https://example.com/convert' })],
  ['a webhook of a service', service({ path: '/convert', port: 8443 })],
])('the strategy %s is accepted', async (_what, definition) => {
  expect(await refusals(definition)).toEqual([])
})

test.each([
  ['an unknown strategy', converting({ strategy: 'Plugin' }), ['NotSupported spec.conversion.strategy']],
  ['no strategy', converting({ strategy: '' }), ['Required spec.conversion.strategy']],
  [
    'the strategy Webhook without a webhook',
    converting({ strategy: 'Webhook' }),
    ['Required spec.conversion.conversionReviewVersions', `Required ${place}`],
  ],
  [
    'the strategy None with a webhook',
    converting({
      strategy: 'None',
      webhook: { clientConfig: { url: 'https://x' }, conversionReviewVersions: ['v1'] },
    }),
    ['Forbidden spec.conversion.conversionReviewVersions', `Forbidden ${place}`],
  ],
  ['neither a URL nor a service', hook({}), [`Required ${place}`]],
  [
    'a URL and a service',
    hook({ url: 'https://x', service: { name: 'a', namespace: 'b' } }),
    [`Required ${place}`],
  ],
  ['a URL without TLS', hook({ url: 'http://x' }), [`Invalid ${place}.url`]],
  ['a URL with a password', hook({ url: 'https://u:p@x' }), [`Invalid ${place}.url`]],
  ['a URL with a query', hook({ url: 'https://x?a=b' }), [`Invalid ${place}.url`]],
  ['a URL that is none', hook({ url: 'https://[::1' }), [`Required ${place}.url`]],
  // Kubernetes mixes up the two places.
  ['a service without a name', service({ name: '' }), [`Required ${place}.service.namespace`]],
  ['a service without a namespace', service({ namespace: '' }), [`Required ${place}.service.name`]],
  ['a port that is none', service({ port: 70_000 }), [`Invalid ${place}.service.port`]],
  ['a path without a slash', service({ path: 'convert' }), [`Invalid ${place}.service.path`]],
  ['a path with an empty step', service({ path: '/a//b' }), [`Invalid ${place}.service.path`]],
  [
    'no review version',
    hook({ url: 'https://x' }, []),
    ['Required spec.conversion.conversionReviewVersions'],
  ],
  [
    'no known review version',
    hook({ url: 'https://x' }, ['v9']),
    ['Invalid spec.conversion.conversionReviewVersions'],
  ],
  [
    'a review version twice',
    hook({ url: 'https://x' }, ['v1', 'v1']),
    ['Invalid spec.conversion.conversionReviewVersions[1]'],
  ],
])('a conversion with %s is refused', async (_what, definition, causes) => {
  expect(await refusals(definition)).toEqual(causes)
})

describe('preserveUnknownFields', () => {
  test('cannot be true', async () => {
    expect(await refusals(definitionWith(withSpec({ preserveUnknownFields: true })))).toEqual([
      'Invalid spec.preserveUnknownFields',
    ])
    expect(await refusals(definitionWith(withSpec({ preserveUnknownFields: false })))).toEqual([])
  })
})

test('stored review versions that are not known may be replaced by others', async () => {
  const previous = stored(hook({ url: 'https://x' }, ['v8']))
  expect(await refusalsOfChange(previous, hook({ url: 'https://x' }, ['v9']))).toEqual([])
})
