import type { Model } from '../api/model.ts'
import type { Transport } from '../client/transport.ts'
import type { Logger } from '../logger.ts'
import type { Plugin } from '../plugin/plugin.ts'

/** Where a test server keeps its objects when it is not to keep them itself. */
export interface EtcdOfTest {
  /** `http://host:port` of the members; all of one cluster. */
  readonly endpoints: readonly string[]
  /** All keys lie under it, and stay there: give each server one of its own, or several the same to share a store. */
  readonly prefix: string
}

/** What the server's package gets from the SDK's `startTestServer`. */
export interface OpenTestServerOptions {
  readonly plugins: readonly Plugin[]
  readonly models: readonly Model[]
  /** Without it: an embedded store in a folder that goes with the server. */
  readonly etcd?: EtcdOfTest
  /** Whether dependents are collected. */
  readonly collector: boolean
  readonly log: Logger
}

/** What it answers: a server that serves every kind, and runs no controller. */
export interface OpenedTestServer {
  /** The way in for this process. */
  readonly transport: Transport
  /** Opens a free port of the loopback interface, once, and answers its URL. */
  listen(): Promise<string>
  /** Ends watches and connections, and removes what was stored in a folder. Calling it again answers the same promise. */
  close(): Promise<void>
}

/**
 * `openTestServer` of `@setpoint/apiserver/testing`. The SDK declares it and looks for it at run time only: the server
 * imports the SDK, never the other way round.
 */
export type OpenTestServer = (options: OpenTestServerOptions) => Promise<OpenedTestServer>

/** The module that has it. */
export const serverEntry = '@setpoint/apiserver/testing'
