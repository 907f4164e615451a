/**
 * `@setpoint/apiserver/testing`: the server as a part of a test. It has one function, and the SDK's `startTestServer`
 * is who calls it: plugins import the SDK alone.
 */
export { openTestServer } from './test-server.ts'
