/**
 * For tests of plugins: a clock that moves when told to. What is here ships, and is what the SDK's own tests use.
 */
export { FakeClock } from './fake-clock.ts'
