/**
 * Tools for testing plugins: a real server in the test's process, a conformance suite for reconcilers, checks of
 * conversions, a fake clock, and a fault-injecting proxy. The SDK's own tests use them too.
 */
export * from './conformance/index.ts'
export { consoleLogger } from './console-logger.ts'
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
