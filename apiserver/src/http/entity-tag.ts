/**
 * Returns true if an If-None-Match header has the entity tag: the client has the content. Koa's `fresh` returns false
 * for a client that also sends `Cache-Control: no-cache`, as `fetch` does. That header is meant for caches on the way.
 */
export function matchesEntityTag(ifNoneMatch: string, etag: string): boolean {
  return ifNoneMatch.split(',').some(each => {
    const tag = each.trim()
    return tag === '*' || tag === etag || tag === `W/${etag}`
  })
}
