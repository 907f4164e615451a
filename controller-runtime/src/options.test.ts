import { describe, expect, test } from 'vitest'
import { MemoryServer } from '../../test/support/sdk/memory-server.ts'
import { Gadget } from '../../test/support/sdk/sample-models.ts'
import { Informer } from './cache/index.ts'
import { createClient, HttpTransport, retryOnConflict } from './client/index.ts'
import { createManager } from './manager/index.ts'
import { checkConversions, reconcilerConformance, startTestServer } from './testing/index.ts'
import { waitFor } from './wait/index.ts'
import { Watcher } from './watch/index.ts'

/** Calls with options that the compiler would refuse, as plain JavaScript can. */
type Call = (options: object) => unknown

const transport = new MemoryServer()
const client = createClient(transport)
const server = 'http://127.0.0.1:8090'
const subject = {
  model: Gadget,
  outside: () => undefined,
  objects: () => [],
  isConverged: () => true,
  isCleanedUp: () => true,
}

const calls: Record<string, Call> = {
  createManager: options => Reflect.apply(createManager, undefined, [{ transport, ...options }]),
  'leaderElection of createManager': options =>
    createManager({ transport, leaderElection: { lease: 'a', ...options } }),
  Informer: options => Reflect.construct(Informer, [Gadget, { client, ...options }]),
  Watcher: options => Reflect.construct(Watcher, [client, Gadget, options]),
  'watcher of Informer': options => new Informer(Gadget, { client, watcher: options }),
  waitFor: options => Reflect.apply(waitFor, undefined, [client, Gadget, 'a', () => true, options]),
  retryOnConflict: options => Reflect.apply(retryOnConflict, undefined, [async () => 1, options]),
  HttpTransport: options => Reflect.construct(HttpTransport, [{ server, ...options }]),
  'tls of HttpTransport': options => new HttpTransport({ server, tls: options }),
  startTestServer: options => Reflect.apply(startTestServer, undefined, [options]),
  'etcd of startTestServer': options =>
    startTestServer({ etcd: { endpoints: ['http://127.0.0.1:1'], prefix: '/a', ...options } }),
  reconcilerConformance: options =>
    Reflect.apply(reconcilerConformance, undefined, [{ ...subject, ...options }]),
  checkConversions: options => Reflect.apply(checkConversions, undefined, [Gadget, options]),
}

describe('a misspelled option', () => {
  test.each([
    ['createManager', 'leaderelection', 'leaderElection'],
    ['leaderElection of createManager', 'leaseDuration', 'leaseDurationMs'],
    ['Informer', 'labelSelectors', 'labelSelector'],
    ['Watcher', 'fieldSelectors', 'fieldSelector'],
    ['watcher of Informer', 'backoffMax', 'backoffMaxMs'],
    ['waitFor', 'timeout', 'timeoutMs'],
    ['retryOnConflict', 'attempt', 'attempts'],
    ['HttpTransport', 'tokens', 'token'],
    ['tls of HttpTransport', 'certs', 'cert'],
    ['startTestServer', 'plugin', 'plugins'],
    ['etcd of startTestServer', 'endpoint', 'endpoints'],
    ['reconcilerConformance', 'normalise', 'normalize'],
    ['checkConversions', 'sample', 'samples'],
  ])('of %s is refused: %s', async (name, wrong, right) => {
    const call = async () => calls[name]?.({ [wrong]: undefined })
    await expect(call()).rejects.toThrow(TypeError)
    await expect(call()).rejects.toThrow(new RegExp(`^unknown key ${wrong} in .*, did you mean ${right}\\?$`))
  })
})
