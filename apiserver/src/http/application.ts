import Koa, { type Context } from 'koa'

type Chain = (ctx: Context) => Promise<void>

/** Koa with a method that its types leave out: it runs the middleware, and sends `ctx.body`. */
const KoaApplication = Koa as unknown as new () => Koa & {
  handleRequest(ctx: Context, chain: Chain): Promise<void>
}

/**
 * A Koa application that listens for the end of a response only if Koa sends it. Those listeners take a tenth of a small
 * read, and `Connections` watches all sockets anyway.
 */
export class Application extends KoaApplication {
  override async handleRequest(ctx: Context, chain: Chain): Promise<void> {
    const { res } = ctx
    // As in Koa, for a request that no middleware serves.
    res.statusCode = 404
    const done = chain(ctx)
    const isSent = await done.then(
      () => ctx.respond === false,
      () => false,
    )
    if (isSent) return
    const { statusCode } = res
    await super.handleRequest(ctx, () => {
      // Koa has reset it.
      res.statusCode = statusCode
      return done
    })
  }
}
