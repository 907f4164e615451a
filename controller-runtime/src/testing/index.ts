/**
 * For tests of plugins: a real server in the test's own process, a suite of what every reconciler should stand, a clock
 * that moves when told to, a proxy that fails when told to, and a recorder that finds what was wrong with the watches of
 * a run. What is here ships, and is what the SDK's own tests use.
 */
export * from './conformance/index.ts'
export { FakeClock } from './fake-clock.ts'
export * from './fault-proxy/index.ts'
export type { EtcdOfTest, OpenedTestServer, OpenTestServer, OpenTestServerOptions } from './server-entry.ts'
export {
  startTestServer,
  type TestServer,
  TestServerMissingError,
  type TestServerOptions,
} from './test-server.ts'
export * from './watch-record/index.ts'
