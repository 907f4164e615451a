import type { Model } from '../api/model.ts'
import type { Transport } from '../client/transport.ts'
import type { Logger } from '../logger.ts'
import type { Plugin } from '../plugin/plugin.ts'

/** An etcd cluster for a test server. */
export interface EtcdOfTest {
  /** `http://host:port` of the members of one cluster. */
  readonly endpoints: readonly string[]
  /** Prefix of all keys, which are not removed. Use a distinct prefix per server, or the same one to share a store. */
  readonly prefix: string
}

/** The settings of plugins, by plugin and setting. */
export type PluginSettingsOfTest = Readonly<Record<string, Readonly<Record<string, unknown>>>>

/** Passed to the server package by `startTestServer`. */
export interface OpenTestServerOptions {
  readonly plugins: readonly Plugin[]
  readonly models: readonly Model[]
  /** The settings of plugins, by plugin and setting. */
  readonly settings: PluginSettingsOfTest
  /** Default: an embedded store in a folder that is removed with the server. */
  readonly etcd?: EtcdOfTest
  /** Whether the garbage collector for dependents runs. */
  readonly collector: boolean
  readonly log: Logger
}

/** A running server without controllers. */
export interface OpenedTestServer {
  /** The in-process transport. */
  readonly transport: Transport
  /** Returns the settings of a plugin with their defaults. @throws Error that lists the invalid ones */
  settingsOf(plugin: Plugin): Readonly<Record<string, unknown>>
  /** Listens on a free port of the loopback interface, once, and returns its URL. */
  listen(): Promise<string>
  /** Ends watches and connections, and removes a stored folder. Further calls return the same promise. */
  close(): Promise<void>
}

/**
 * `openTestServer` of `@setpoint/apiserver/testing`. The SDK imports it at run time only, since the server depends on
 * the SDK.
 */
export type OpenTestServer = (options: OpenTestServerOptions) => Promise<OpenedTestServer>

/** The module that exports it. */
export const serverEntry = '@setpoint/apiserver/testing'
