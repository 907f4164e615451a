import { useEffect, useRef } from 'preact/hooks'
import { apiUrl } from '../api/address.ts'
import { get } from '../api/http.ts'
import type { ApiObject } from '../api/json.ts'
import { socket } from '../api/socket.ts'
import { tell } from '../app-state.ts'
import type { LiveObject } from '../model/live-object.ts'
import { useAsync } from './use-async.ts'

/** Draws into the cell, and again for each change of the object. */
export type CellRenderer = (element: HTMLElement, object: ApiObject) => void

/** What a plugin's tab gets. See docs/guides/console.md. */
export interface TabContext {
  readonly object: ApiObject
  /** Calls with the object now and after each change. Returns a function that ends it. */
  follow(changed: (object: ApiObject) => void): () => void
  /** Reads a path of the API, with the rights of the person. */
  get(path: string): Promise<unknown>
  /** Follows a path of the API over the console's socket. Returns a function that ends it. */
  watch(path: string, event: (type: string, object: unknown) => void): () => void
  /** Draws lines over time into an element. Times are in seconds. Returns functions that change and remove it. */
  plot(
    element: HTMLElement,
    lines: readonly { readonly name: string; readonly unit?: string }[],
  ): Promise<{ set(times: readonly number[], ...values: readonly (number | null)[][]): void; remove(): void }>
}

export interface PluginTab {
  readonly name: string
  /** Draws the tab. Returns a function that ends what it has begun. */
  render(element: HTMLElement, context: TabContext): (() => void) | undefined
}

/** What the module of a plugin exports by default. */
export interface Extension {
  readonly tabs?: readonly PluginTab[]
  readonly cells?: Readonly<Record<string, CellRenderer>>
}

/** Loads the module of a plugin. One that fails is told, and adds nothing. */
export function useExtension(module: string | undefined): Extension | undefined {
  return useAsync(
    async () => {
      if (module === undefined) return {}
      const loaded: { default: Extension } = await import(apiUrl(module).href)
      return loaded.default
    },
    [module],
    () => tell(`The plugin's module ${module} could not be loaded.`),
  )
}

export function PluginCell({ object, render }: { object: ApiObject; render: CellRenderer }) {
  const element = useRef<HTMLSpanElement>(null)
  useEffect(() => {
    if (element.current === null) return
    try {
      render(element.current, object)
    } catch (error) {
      element.current.textContent = `${error}`
    }
  }, [object, render])
  return <span ref={element} />
}

export function PluginTabPanel({ tab, live }: { tab: PluginTab; live: LiveObject }) {
  const element = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const { current } = element
    const { value } = live.state
    if (current === null || !('object' in value)) return
    const context: TabContext = {
      object: value.object,
      follow: changed => live.state.subscribe(state => 'object' in state && changed(state.object)),
      get: path => get(path),
      watch: (path, event) =>
        socket.subscribe({ path, version: undefined, event, expired: () => event('EXPIRED', undefined) }),
      plot: async (target, lines) => (await import('../plot/plot.ts')).plot(target, lines),
    }
    try {
      const end = tab.render(current, context)
      return () => {
        end?.()
        current.replaceChildren()
      }
    } catch (error) {
      current.textContent = `The tab of the plugin has failed: ${error}`
    }
  }, [tab, live])
  return <div ref={element} class="plugin-tab" />
}
