import type { Router } from '@koa/router'
import { ApiError } from '@setpoint/controller-runtime/api'
import { quote } from '../model/index.ts'
import {
  type ApiDocuments,
  docsFile,
  docsHeaders,
  docsPaths,
  type ReadyDocument,
  type SwaggerForm,
} from '../openapi/index.ts'
import { negotiate } from './accept.ts'
import type { CustomRoutes } from './custom-routes.ts'
import { matchesEntityTag } from './entity-tag.ts'
import { consolePath } from './middleware/pages.ts'
import { nothingServed } from './request-info.ts'
import type { Context, RequestState } from './request-state.ts'

const json = 'application/json'

const swaggerProtobuf = 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf'

/** The media types of the Swagger 2.0 document, as in kube-openapi's handler. client-go asks for the older protobuf. */
const swaggerForms: ReadonlyMap<string, { readonly form: SwaggerForm; readonly type: string }> = new Map([
  [json, { form: 'json', type: json }],
  ['application/com.github.proto-openapi.spec.v2@v1.0+protobuf', { form: 'protobuf', type: swaggerProtobuf }],
  [swaggerProtobuf, { form: 'protobuf', type: swaggerProtobuf }],
])

/** The v3 documents are JSON only: Kubernetes clients that prefer protobuf accept JSON, too. */
const onlyJson: ReadonlyMap<string, string> = new Map([[json, json]])

/** A year: the hash in the URL names the content. */
const unchanging = 'private, immutable, max-age=31536000'
const unhashed = 'no-cache, private'

/** Serves the OpenAPI documents, and the page to browse them. */
export function addOpenApiRoutes(
  router: Router<RequestState>,
  { documents, routes }: { readonly documents: ApiDocuments; readonly routes: CustomRoutes },
): void {
  router.get('/openapi/v2', async (ctx: Context) => {
    const { form, type } = acceptedOf(ctx, swaggerForms)
    respond(ctx, await documents.swagger(form), { 'content-type': type, 'cache-control': unhashed })
  })
  router.get('/openapi/v3', async (ctx: Context) => {
    acceptedOf(ctx, onlyJson)
    respond(ctx, await documents.index(), { 'content-type': json, 'cache-control': unhashed })
  })
  const sendDocument = async (ctx: Context, groupVersion: string, path: string) => {
    acceptedOf(ctx, onlyJson)
    const document = await documents.document(groupVersion)
    if (document === undefined) throw nothingServed(ctx.state.target.path, path, ctx.state.info)
    const hash = new URLSearchParams(ctx.state.target.query).get('hash')
    const isHashed = hash !== null && hash !== ''
    if (isHashed && hash !== document.hash) {
      redirect(ctx, documents.pathOf(groupVersion, document.hash))
      return
    }
    const caching = isHashed ? unchanging : unhashed
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
      const file = await docsFile(path, routes.pages.has(consolePath))
      respond(ctx, file, { ...docsHeaders, 'content-type': file.type, 'cache-control': 'no-cache' })
    })
  }
}

/** Returns what is offered under the media type that the client prefers. @throws ApiError 406 */
function acceptedOf<Offer>(ctx: Context, offers: ReadonlyMap<string, Offer>): Offer {
  const types = [...offers.keys()]
  const accepted = negotiate(ctx.get('accept') || '*/*', types, () => undefined)
  const offer = accepted && offers.get(accepted.type)
  if (offer === undefined)
    throw new ApiError(
      'NotAcceptable',
      `only ${types.join(', ')} can be produced, not ${quote(ctx.get('accept'))}`,
    )
  return offer
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
