import {
  type ApiObject,
  type Client,
  type Clock,
  defineModel,
  isExpired,
  type Logger,
  type Model,
  Watcher,
} from '@setpoint/controller-runtime'
import { groupVersionOf, pluralOf, type SubscribedKind } from './subscription.ts'

/** A cursor before every version: the feed starts with the current state. */
export const beginning = '0'

/** An event of a feed, in the order of versions. */
export type FeedEvent =
  | { readonly type: 'added' | 'modified' | 'deleted'; readonly object: ApiObject; readonly version: string }
  /** There is no change up to `version` besides those reported. */
  | { readonly type: 'bookmark'; readonly version: string }
  /** The changes after the cursor can no longer be read. These are all objects at `version`. */
  | { readonly type: 'state'; readonly objects: readonly ApiObject[]; readonly version: string }

interface FeedOptions {
  readonly client: Pick<Client, 'watch'>
  readonly kind: SubscribedKind
  /** Changes after this version are reported. */
  readonly cursor: string
  /** If true, the server soon ends each watch with a bookmark, which tells how far the feed has come. */
  readonly brief: boolean
  /** Called with undefined whenever a watch is open, or with the error if it failed to open. */
  readonly onWatch: (error: unknown) => void
  readonly clock: Clock
  readonly random: () => number
  readonly log: Logger
}

/**
 * Follows the changes of a kind from a stored version on. The SDK's watcher does the work: it reconnects, resumes, and
 * lists again after a 410. A watcher starts with a list. Here, its first list is empty and has the version of the
 * cursor, so that it continues from there; if that version is no longer kept, the watcher makes a real list.
 */
export async function* feed(options: FeedOptions, signal: AbortSignal): AsyncGenerator<FeedEvent, void> {
  const { client, cursor, brief, onWatch, clock, random, log } = options
  const { labelSelector, fieldSelector } = options.kind
  const types = new WeakMap<ApiObject, 'added' | 'modified'>()
  let start = cursor === beginning ? undefined : cursor
  let isEmptyList = false

  const source: Pick<Client, 'watch'> = {
    async watch(model, asked = {}) {
      const isStart = asked.version === undefined && start !== undefined
      const version = isStart ? start : asked.version
      const limited = brief ? { timeoutSeconds: 1 } : {}
      const stream = await client.watch(model, { ...asked, ...limited, version }).catch((error: unknown) => {
        if (isExpired(error)) start = undefined
        else onWatch(error)
        throw error
      })
      start = undefined
      onWatch(undefined)
      return {
        end: stream.end,
        close: () => stream.close(),
        async *[Symbol.asyncIterator]() {
          if (isStart && version !== undefined) {
            isEmptyList = true
            yield emptyList(model, version)
          }
          try {
            for await (const event of stream) {
              if (event.type === 'ADDED') types.set(event.object, 'added')
              else if (event.type === 'MODIFIED') types.set(event.object, 'modified')
              yield event
            }
          } catch (error) {
            onWatch(error)
            throw error
          }
        },
      }
    },
  }

  const watcher = new Watcher(source, modelOf(options.kind), {
    clock,
    log,
    random,
    labelSelector,
    fieldSelector,
  })
  for await (const event of watcher.events(signal)) {
    const { version } = event
    switch (event.type) {
      case 'replaced':
        if (!isEmptyList) yield { type: 'state', objects: event.objects, version }
        isEmptyList = false
        break
      case 'applied':
        yield { type: types.get(event.object) ?? 'modified', object: event.object, version }
        break
      default:
        yield event
    }
  }
}

/** The bookmark that ends the initial events of a watch. */
function emptyList({ apiVersion, kind }: Model, version: string) {
  const annotations = { 'k8s.io/initial-events-end': 'true' }
  const metadata = { version, resourceVersion: version, annotations }
  return { type: 'BOOKMARK', object: { apiVersion, kind, metadata } } as const
}

/** A watch of all objects needs no more of a kind than its names: the path is the same for both scopes. */
function modelOf(subscribed: SubscribedKind): Model {
  const [group, version] = groupVersionOf(subscribed)
  const { kind } = subscribed
  const plural = pluralOf(subscribed)
  return defineModel({
    group,
    version,
    kind,
    singular: kind.toLowerCase(),
    plural,
    schema: { spec: { type: 'object' } },
  })
}
