/**
 * `@setpoint/apiserver/testing`: the server inside a test's process. The SDK's `startTestServer` calls its one
 * function; plugins import only the SDK.
 */
export { openTestServer } from './test-server.ts'
