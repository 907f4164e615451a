import type { Router } from '@koa/router'
import { ApiError } from '@setpoint/controller-runtime/api'
import { quote } from '../model/index.ts'
import { type ApiDocuments, docsFile, docsHeaders, docsPaths, type ReadyDocument } from '../openapi/index.ts'
import { negotiate } from './accept.ts'
import { matchesEntityTag } from './entity-tag.ts'
import { nothingServed } from './request-info.ts'
import type { Context, RequestState } from './request-state.ts'

const json = 'application/json'

/** A year: the hash in the URL names the content. */
const unchanging = 'private, immutable, max-age=31536000'

/** Serves the OpenAPI documents, and the page to browse them. */
export function addOpenApiRoutes(
  router: Router<RequestState>,
  { documents }: { readonly documents: ApiDocuments },
): void {
  router.get('/openapi/v3', async (ctx: Context) => {
    requireJson(ctx)
    respond(ctx, await documents.index(), { 'content-type': json, 'cache-control': 'no-cache, private' })
  })
  const sendDocument = async (ctx: Context, groupVersion: string, path: string) => {
    requireJson(ctx)
    const document = await documents.document(groupVersion)
    if (document === undefined) throw nothingServed(ctx.state.target.path, path, ctx.state.info)
    const hash = new URLSearchParams(ctx.state.target.query).get('hash')
    const isHashed = hash !== null && hash !== ''
    if (isHashed && hash !== document.hash) {
      redirect(ctx, documents.pathOf(groupVersion, document.hash))
      return
    }
    const caching = isHashed ? unchanging : 'no-cache, private'
    respond(ctx, document, { 'content-type': json, 'cache-control': caching })
  }
  router.get('/openapi/v3/api/:version', (ctx: Context) => {
    const { version = '' } = ctx.params
    return sendDocument(ctx, version, `/api/${version}`)
  })
  router.get('/openapi/v3/apis/:group/:version', (ctx: Context) => {
    const groupVersion = `${ctx.params.group}/${ctx.params.version}`
    return sendDocument(ctx, groupVersion, `/apis/${groupVersion}`)
  })
  for (const path of docsPaths) {
    router.get(path, async (ctx: Context) => {
      // The page's links are relative to a path without a slash at its end.
      if (ctx.state.path !== path) throw nothingServed(ctx.state.target.path)
      const file = await docsFile(path)
      respond(ctx, file, { ...docsHeaders, 'content-type': file.type, 'cache-control': 'no-cache' })
    })
  }
}

/** Documents are JSON only: Kubernetes clients that prefer protobuf accept JSON, too. @throws ApiError 406 */
function requireJson(ctx: Context): void {
  if (negotiate(ctx.get('accept') || '*/*', [json], () => undefined) === undefined)
    throw new ApiError('NotAcceptable', `only ${json} can be produced, not ${quote(ctx.get('accept'))}`)
}

/** Responds with the content, or with 304 to a client that has it. */
function respond(ctx: Context, { bytes, hash }: ReadyDocument, headers: Record<string, string>): void {
  const etag = `"${hash}"`
  const sent = { ...headers, etag, vary: 'Accept, Accept-Encoding, Origin' }
  if (matchesEntityTag(ctx.get('if-none-match'), etag)) {
    ctx.set(sent)
    ctx.status = 304
  } else ctx.state.response = { status: 200, headers: sent, body: bytes }
}

/** Caches must not keep this: the hash that is stale now may be the current one again. */
function redirect(ctx: Context, location: string): void {
  ctx.state.response = {
    status: 301,
    headers: { location, 'cache-control': 'no-store' },
    body: Buffer.alloc(0),
  }
}
