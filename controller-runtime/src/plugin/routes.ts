import type { UserInfo } from '../api/hooks.ts'
import type { KeysOf } from '../api/known-keys.ts'
import { checkDnsLabel, checkSubdomain } from '../api/names.ts'
import type { Client } from '../client/client.ts'
import type { Logger } from '../logger.ts'

/**
 * The values of the parameters of a pattern: `:name`, `*name` for the rest of the path, and `{/:name}` for an optional
 * part. If the pattern is not a literal type, any name may be absent.
 */
export type RouteParams<Pattern extends string = string> = string extends Pattern
  ? Readonly<Record<string, string | undefined>>
  : Readonly<ParamsIn<Pattern>>

type ParamsIn<Pattern extends string> = Pattern extends `${infer Before}{${infer Optional}}${infer After}`
  ? { [Name in NamesIn<Before | After>]: string } & { [Name in NamesIn<Optional>]?: string }
  : { [Name in NamesIn<Pattern>]: string }

type NamesIn<Text extends string> = Exclude<NamesAfter<Text, ':'> | NamesAfter<Text, '*'>, ''>

type NamesAfter<Text extends string, Mark extends string> = Text extends `${string}${Mark}${infer Rest}`
  ? LeadingName<Rest> | NamesAfter<Rest, Mark>
  : never

type LeadingName<Text extends string, Name extends string = ''> = Text extends `${infer Next}${infer Rest}`
  ? Lowercase<Next> extends NameCharacter
    ? LeadingName<Rest, `${Name}${Next}`>
    : Name
  : Name

type NameCharacter = Characters<'abcdefghijklmnopqrstuvwxyz0123456789_$'>
type Characters<Text extends string> = Text extends `${infer First}${infer Rest}`
  ? First | Characters<Rest>
  : never

/** Passed to a route's handler; `params` has only the names of the pattern if that is a literal type. */
export interface RouteRequest<Pattern extends string = string> {
  readonly method: string
  /** The path of the request, without the query. */
  readonly path: string
  /** Decoded values of the pattern's parameters. */
  readonly params: RouteParams<Pattern>
  readonly query: URLSearchParams
  /**
   * Lower-case names. Without the headers that carry credentials: `authorization`, `proxy-authorization`, `cookie` and
   * `sec-websocket-protocol`. Use `user` to decide what the caller may do.
   */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** The decoded JSON or YAML body, by its content type; undefined without a body. */
  readonly body: unknown
  /** The caller. The same object for the whole request, so that `client.as(user)` can act for the caller. */
  readonly user: UserInfo
  /** Acts as the plugin; `client.as(user)` acts for the caller. */
  readonly client: Client
  readonly log: Logger
  /** Aborted when the client disconnects or the plugin stops. */
  readonly signal: AbortSignal
}

/** Returned by a handler; undefined means 204. */
export interface RouteResponse {
  /** Default 200, or 204 without a body. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Strings and bytes are sent unchanged, other values as JSON. */
  readonly body?: unknown
}

/** The keys of a `RouteResponse`; the server refuses others. */
export const routeResponseKeys: KeysOf<RouteResponse> = { status: true, headers: true, body: true }

/** Handles a request. If it throws, the server responds with 500, or with the status of an ApiError. */
export type RouteHandler<Pattern extends string = string> = (
  request: RouteRequest<Pattern>,
) => RouteResponse | undefined | Promise<RouteResponse | undefined>

/** The methods of routes. */
export type RouteMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** Options of a route. */
export interface RouteOptions {
  /** What the route does, in one sentence, for the generated API documents. */
  readonly summary?: string
}

/** One route of a plugin. */
export interface Route extends RouteOptions {
  readonly method: RouteMethod
  /** The path below the group version, for example `/gadgets/:name/summary`. */
  readonly pattern: string
  readonly handler: RouteHandler
}

/** The routes of one group version. */
export interface RouteGroup {
  /** `<group>/<version>` */
  readonly groupVersion: string
  readonly routes: readonly Route[]
}

/** Collects routes; each method returns the builder. */
export class RouteBuilder {
  readonly #routes: Route[] = []

  get<Pattern extends string>(pattern: Pattern, handler: RouteHandler<Pattern>, options?: RouteOptions): this
  get(pattern: string, handler: RouteHandler, options?: RouteOptions): this {
    return this.#add('GET', pattern, handler, options)
  }
  post<Pattern extends string>(pattern: Pattern, handler: RouteHandler<Pattern>, options?: RouteOptions): this
  post(pattern: string, handler: RouteHandler, options?: RouteOptions): this {
    return this.#add('POST', pattern, handler, options)
  }
  put<Pattern extends string>(pattern: Pattern, handler: RouteHandler<Pattern>, options?: RouteOptions): this
  put(pattern: string, handler: RouteHandler, options?: RouteOptions): this {
    return this.#add('PUT', pattern, handler, options)
  }
  patch<Pattern extends string>(
    pattern: Pattern,
    handler: RouteHandler<Pattern>,
    options?: RouteOptions,
  ): this
  patch(pattern: string, handler: RouteHandler, options?: RouteOptions): this {
    return this.#add('PATCH', pattern, handler, options)
  }
  delete<Pattern extends string>(
    pattern: Pattern,
    handler: RouteHandler<Pattern>,
    options?: RouteOptions,
  ): this
  delete(pattern: string, handler: RouteHandler, options?: RouteOptions): this {
    return this.#add('DELETE', pattern, handler, options)
  }

  build(groupVersion: string): RouteGroup {
    const [group = '', version = '', ...more] = groupVersion.split('/')
    const problem = checkSubdomain(group) ?? checkDnsLabel(version)
    if (more.length > 0 || problem !== undefined) {
      throw new TypeError(
        `routes: ${JSON.stringify(groupVersion)} must have the form <group>/<version>${problem === undefined ? '' : `: ${problem}`}`,
      )
    }
    return { groupVersion, routes: [...this.#routes] }
  }

  #add(method: RouteMethod, pattern: string, handler: RouteHandler, options: RouteOptions = {}): this {
    if (typeof pattern !== 'string' || !pattern.startsWith('/')) {
      throw new TypeError(
        `route ${method} ${JSON.stringify(pattern)}: the pattern must be a string that starts with '/'`,
      )
    }
    if (typeof handler !== 'function')
      throw new TypeError(`route ${method} ${pattern}: the handler must be a function`)
    const { summary, ...others } = options
    const [unknown] = Object.keys(others)
    if (unknown !== undefined) {
      throw new TypeError(
        `route ${method} ${pattern}: the option ${JSON.stringify(unknown)} is unknown; valid is summary`,
      )
    }
    if (summary !== undefined && typeof summary !== 'string')
      throw new TypeError(`route ${method} ${pattern}: summary must be a string`)
    this.#routes.push({ method, pattern, handler, summary })
    return this
  }
}

const apiVersionKey = Symbol.for('setpoint.dev/api-version')
const routesKey = Symbol.for('setpoint.dev/routes')

interface Mapping {
  readonly method: RouteMethod
  readonly pattern: string
  readonly options: RouteOptions
  readonly member: string | symbol
}

interface Marked {
  [apiVersionKey]?: string
  [routesKey]?: Mapping[]
}

/**
 * Declares that a class serves `/apis/<group>/<version>`: as a decorator in TypeScript, or in plain JavaScript as
 * `ApiVersion('g/v')(Endpoint)`.
 */
export function ApiVersion(groupVersion: string) {
  return (endpoint: new () => object, _context?: ClassDecoratorContext): void => {
    Object.defineProperty(endpoint, apiVersionKey, { value: groupVersion })
  }
}

/** Declares a method of an endpoint class as the handler of GET on a path. */
export const Get = mapping('GET')
/** Declares a method of an endpoint class as the handler of POST on a path. */
export const Post = mapping('POST')
/** Declares a method of an endpoint class as the handler of PUT on a path. */
export const Put = mapping('PUT')
/** Declares a method of an endpoint class as the handler of PATCH on a path. */
export const Patch = mapping('PATCH')
/** Declares a method of an endpoint class as the handler of DELETE on a path. */
export const Delete = mapping('DELETE')

/**
 * Declares a method as the handler of a route: as a decorator, or in plain JavaScript as
 * `Get('/path')(Endpoint.prototype, 'member')`.
 */
function mapping(method: RouteMethod) {
  return (pattern: string, options: RouteOptions = {}) => {
    const add = (target: object, member: string | symbol) => {
      if (!Object.hasOwn(target, routesKey)) Object.defineProperty(target, routesKey, { value: [] })
      ;(target as Marked)[routesKey]?.push({ method, pattern, options, member })
    }
    return (target: object, context: ClassMethodDecoratorContext | string | symbol): void => {
      if (typeof context !== 'object') {
        add(target, context)
        return
      }
      const { name } = context
      // The class does not exist yet when a method decorator runs; the initializer of its first instance stores the
      // route on the prototype.
      context.addInitializer(function (this: unknown) {
        const prototype: object = Object.getPrototypeOf(this)
        if (!mappingsOf(prototype).some(sameAs({ method, pattern, options, member: name })))
          add(prototype, name)
      })
    }
  }
}

/** Returns what the classes of a prototype declare, a base class before the one that extends it. */
function mappingsOf(prototype: object | null): readonly Mapping[] {
  if (prototype === null) return []
  const inherited = mappingsOf(Object.getPrototypeOf(prototype))
  const own = Object.hasOwn(prototype, routesKey) ? ((prototype as Marked)[routesKey] ?? []) : []
  return [...inherited, ...own.filter(mapping => !inherited.some(sameAs(mapping)))]
}

/** A class may override a method and declare its route once more. */
function sameAs({ method, pattern, member }: Mapping): (other: Mapping) => boolean {
  return other => other.method === method && other.pattern === pattern && other.member === member
}

/**
 * Returns the routes of an endpoint class and its base classes, or undefined if it has no `ApiVersion` of its own: the
 * audience of a base class need not be that of a class that extends it.
 */
export function routesOf(endpoint: new () => object): RouteGroup | undefined {
  const groupVersion = Object.hasOwn(endpoint, apiVersionKey)
    ? (endpoint as Marked)[apiVersionKey]
    : undefined
  if (groupVersion === undefined) return undefined
  const instance = new endpoint()
  const builder = new RouteBuilder()
  for (const { method, pattern, options, member } of mappingsOf(Object.getPrototypeOf(instance))) {
    const handler: unknown = Reflect.get(instance, member)
    if (typeof handler !== 'function')
      throw new TypeError(`${endpoint.name}.${String(member)} is not a method`)
    builder[method.toLowerCase() as Lowercase<RouteMethod>](
      pattern,
      request => handler.call(instance, request),
      options,
    )
  }
  const group = builder.build(groupVersion)
  if (group.routes.length === 0) {
    throw new TypeError(
      `class ${endpoint.name} serves ${groupVersion}, but no method is decorated with Get, Post, Put, Patch or Delete`,
    )
  }
  return group
}
