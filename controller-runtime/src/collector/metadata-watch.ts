import type { Model } from '../api/model.ts'
import { type ApiObject, initialEventsEndAnnotation } from '../api/object.ts'
import type { Client, WatchOptions, WatchStream } from '../client/client.ts'
import type { WatchSource } from '../watch/watcher.ts'

/**
 * Watches through a client and keeps only metadata, and of the initial objects only those that concern the collector,
 * so a million objects without owners need no memory. Tells when a watch opens, and when all of its events were taken.
 */
export function metadataWatch(
  client: Pick<Client, 'watch'>,
  concerns: (object: ApiObject) => boolean,
  tell: (isOpen: boolean) => void,
): WatchSource<ApiObject> {
  return {
    async watch(model: Model, options: WatchOptions = {}): Promise<WatchStream> {
      const stream = await client.watch(model, options)
      tell(true)
      return {
        end: stream.end,
        close: () => stream.close(),
        async *[Symbol.asyncIterator]() {
          let initial = options.version === undefined
          try {
            for await (const event of stream) {
              if (event.type === 'BOOKMARK') {
                if (event.object.metadata.annotations?.[initialEventsEndAnnotation] === 'true')
                  initial = false
                yield event
              } else if (event.type === 'ERROR') yield event
              else if (!initial || event.type !== 'ADDED' || concerns(event.object)) {
                yield { type: event.type, object: metadataOf(event.object) }
              }
            }
          } finally {
            tell(false)
          }
        },
      }
    },
  }
}

function metadataOf({ apiVersion, kind, metadata }: ApiObject): ApiObject {
  const { labels: _labels, annotations: _annotations, ...kept } = metadata
  return { apiVersion, kind, metadata: kept, spec: undefined }
}
