import { checkDnsLabel, checkSubdomain } from '../api/names.ts'
import type { Client } from '../client/client.ts'
import type { Logger } from '../logger.ts'

/** Who made a request. */
export interface UserInfo {
  readonly name: string
  readonly groups: readonly string[]
}

/** What the `:name` parts of a pattern hold: those that it is known to have, and any others as of a record. */
export type RouteParams<Pattern extends string = string> = Readonly<Record<string, string>> & {
  readonly [Name in ParamNames<Pattern>]: string
}

type ParamNames<Pattern extends string> = Pattern extends `${infer Part}/${infer Rest}`
  ? ParamName<Part> | ParamNames<Rest>
  : ParamName<Pattern>

type ParamName<Part extends string> = Part extends `:${infer Name}` ? Name : never

/** What a route's handler gets; of a pattern that is known, with the names of its parameters. */
export interface RouteRequest<Pattern extends string = string> {
  readonly method: string
  /** The path as asked for, without the query. */
  readonly path: string
  /** Values of the `:name` parts of the pattern, decoded. */
  readonly params: RouteParams<Pattern>
  readonly query: URLSearchParams
  /**
   * Lower-case names. Without the headers that carry credentials: `authorization`, `proxy-authorization`, `cookie` and
   * `sec-websocket-protocol`. Use `user` to decide what the caller may do.
   */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** The body read as JSON or YAML by its content type; undefined where there is none. */
  readonly body: unknown
  readonly user: UserInfo
  /** Acts as the plugin. */
  readonly client: Client
  readonly log: Logger
  /** Aborted when the caller has gone or the plugin stops. */
  readonly signal: AbortSignal
}

/** What a handler answers. Nothing at all is 204. */
export interface RouteResponse {
  /** Default 200, or 204 without a body. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** A string or bytes are sent as they are, anything else as JSON. */
  readonly body?: unknown
}

/** An exception becomes a 500 (an ApiError its own status) and the server goes on. */
export type RouteHandler<Pattern extends string = string> = (
  request: RouteRequest<Pattern>,
) => RouteResponse | undefined | Promise<RouteResponse | undefined>

/** The methods that a route may have. */
export type RouteMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** One route of a plugin. */
export interface Route {
  readonly method: RouteMethod
  /** Below the group version, for example `/gadgets/:name/summary`. */
  readonly pattern: string
  readonly handler: RouteHandler
}

/** The routes of one group version. */
export interface RouteGroup {
  /** `<group>/<version>` */
  readonly groupVersion: string
  readonly routes: readonly Route[]
}

/** Collects routes; each call answers the builder. */
export class RouteBuilder {
  readonly #routes: Route[] = []

  get<Pattern extends string>(pattern: Pattern, handler: RouteHandler<Pattern>): this
  get(pattern: string, handler: RouteHandler): this {
    return this.#add('GET', pattern, handler)
  }
  post<Pattern extends string>(pattern: Pattern, handler: RouteHandler<Pattern>): this
  post(pattern: string, handler: RouteHandler): this {
    return this.#add('POST', pattern, handler)
  }
  put<Pattern extends string>(pattern: Pattern, handler: RouteHandler<Pattern>): this
  put(pattern: string, handler: RouteHandler): this {
    return this.#add('PUT', pattern, handler)
  }
  patch<Pattern extends string>(pattern: Pattern, handler: RouteHandler<Pattern>): this
  patch(pattern: string, handler: RouteHandler): this {
    return this.#add('PATCH', pattern, handler)
  }
  delete<Pattern extends string>(pattern: Pattern, handler: RouteHandler<Pattern>): this
  delete(pattern: string, handler: RouteHandler): this {
    return this.#add('DELETE', pattern, handler)
  }

  build(groupVersion: string): RouteGroup {
    const [group = '', version = '', ...more] = groupVersion.split('/')
    const problem = checkSubdomain(group) ?? checkDnsLabel(version)
    if (more.length > 0 || problem !== undefined) {
      throw new TypeError(
        `routes: ${JSON.stringify(groupVersion)} is not of the form <group>/<version>${problem === undefined ? '' : `: ${problem}`}`,
      )
    }
    return { groupVersion, routes: [...this.#routes] }
  }

  #add(method: RouteMethod, pattern: string, handler: RouteHandler): this {
    if (typeof pattern !== 'string' || !pattern.startsWith('/')) {
      throw new TypeError(
        `route ${method} ${JSON.stringify(pattern)}: a pattern is a text that starts with '/'`,
      )
    }
    if (typeof handler !== 'function')
      throw new TypeError(`route ${method} ${pattern}: the handler must be a function`)
    this.#routes.push({ method, pattern, handler })
    return this
  }
}

const apiVersionKey = Symbol.for('setpoint.dev/api-version')
const routesKey = Symbol.for('setpoint.dev/routes')

interface Marked {
  [apiVersionKey]?: string
  [routesKey]?: { method: RouteMethod; pattern: string; member: string | symbol }[]
}

/**
 * Marks a class as serving `/apis/<group>/<version>`: as a decorator in TypeScript, or called as
 * `ApiVersion('g/v')(Endpoint)` in plain JavaScript.
 */
export function ApiVersion(groupVersion: string) {
  return (endpoint: new () => object, _context?: ClassDecoratorContext): void => {
    Object.defineProperty(endpoint, apiVersionKey, { value: groupVersion })
  }
}

/** Marks a method of an endpoint class as the handler of GET on a path. */
export const Get = mapping('GET')
/** Marks a method of an endpoint class as the handler of POST on a path. */
export const Post = mapping('POST')
/** Marks a method of an endpoint class as the handler of PUT on a path. */
export const Put = mapping('PUT')
/** Marks a method of an endpoint class as the handler of PATCH on a path. */
export const Patch = mapping('PATCH')
/** Marks a method of an endpoint class as the handler of DELETE on a path. */
export const Delete = mapping('DELETE')

/**
 * Marks a method as the handler of a route: as a decorator, or in plain JavaScript as
 * `Get('/path')(Endpoint.prototype, 'member')`.
 */
function mapping(method: RouteMethod) {
  return (pattern: string) => {
    const add = (target: object, member: string | symbol) => {
      if (!Object.hasOwn(target, routesKey)) Object.defineProperty(target, routesKey, { value: [] })
      ;(target as Marked)[routesKey]?.push({ method, pattern, member })
    }
    return (target: object, context: ClassMethodDecoratorContext | string | symbol): void => {
      if (typeof context !== 'object') {
        add(target, context)
        return
      }
      const { name } = context
      // The class does not exist yet when a method decorator runs; routes are filed on the prototype of the
      // first instance, which is made only to be asked for them.
      context.addInitializer(function (this: unknown) {
        const prototype: object = Object.getPrototypeOf(this)
        const known = Object.hasOwn(prototype, routesKey) ? (prototype as Marked)[routesKey] : undefined
        if (
          !known?.some(route => route.member === name && route.method === method && route.pattern === pattern)
        ) {
          add(prototype, name)
        }
      })
    }
  }
}

/** The routes of a marked class, or undefined where the class has no mark. */
export function routesOf(endpoint: new () => object): RouteGroup | undefined {
  const groupVersion = (endpoint as Marked)[apiVersionKey]
  if (groupVersion === undefined) return undefined
  const instance = new endpoint()
  const builder = new RouteBuilder()
  for (const { method, pattern, member } of (instance as Marked)[routesKey] ?? []) {
    const handler: unknown = Reflect.get(instance, member)
    if (typeof handler !== 'function')
      throw new TypeError(`${endpoint.name}.${String(member)} is not a method`)
    builder[method.toLowerCase() as Lowercase<RouteMethod>](pattern, request =>
      handler.call(instance, request),
    )
  }
  const group = builder.build(groupVersion)
  if (group.routes.length === 0) {
    throw new TypeError(
      `class ${endpoint.name} serves ${groupVersion}, but none of its methods is marked with Get, Post, Put, Patch or Delete`,
    )
  }
  return group
}
