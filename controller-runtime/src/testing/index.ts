/**
 * Tools for testing plugins: a real server in the test's process, a conformance suite for reconcilers, checks of
 * conversions, a fake clock, a fault-injecting proxy, and a recorder that checks the watches of a run. The SDK's own
 * tests use them too.
 */
export * from './conformance/index.ts'
export * from './conversions/index.ts'
export { FakeClock } from './fake-clock.ts'
export * from './fault-proxy/index.ts'
export type {
  EtcdOfTest,
  OpenedTestServer,
  OpenTestServer,
  OpenTestServerOptions,
  PluginSettingsOfTest,
} from './server-entry.ts'
export {
  startTestServer,
  type TestServer,
  TestServerMissingError,
  type TestServerOptions,
} from './test-server.ts'
export * from './watch-record/index.ts'
