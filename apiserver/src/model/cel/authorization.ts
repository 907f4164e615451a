import { Opaque } from './opaque.ts'

/** The objects that a check is about. Empty texts stand for what was not given. */
export interface CheckedResource {
  readonly group: string
  readonly resource: string
  readonly subresource: string
  readonly namespace: string
  readonly name: string
}

/** What an expression asks about the permissions of a user. */
export interface AccessQuestion {
  readonly verb: string
  /** Undefined for the user of the request. */
  readonly account: { readonly namespace: string; readonly name: string } | undefined
  /** A path that is not about objects, or objects. */
  readonly target: string | CheckedResource
}

export interface AccessAnswer {
  readonly isAllowed: boolean
  readonly reason: string
  /** Why the question could not be answered. Empty if it was. */
  readonly error: string
}

/** Answers what expressions ask. */
export type AskAccess = (question: AccessQuestion) => AccessAnswer

/** The value of the variable `authorizer`. */
export class Authorizer extends Opaque {
  readonly typeName = 'kubernetes.authorization.Authorizer'
  readonly ask: AskAccess
  readonly account: AccessQuestion['account']
  /** The value of `authorizer.requestResource`. */
  readonly requestResource: ResourceCheck | undefined

  constructor(ask: AskAccess, request?: CheckedResource, account?: AccessQuestion['account']) {
    super()
    this.ask = ask
    this.account = account
    this.requestResource = request && new ResourceCheck(this, request)
  }

  get identity(): string {
    return JSON.stringify(this.account ?? null)
  }
}

/** The value of `authorizer.path(p)`. */
export class PathCheck extends Opaque {
  readonly typeName = 'kubernetes.authorization.PathCheck'
  readonly authorizer: Authorizer
  readonly path: string

  constructor(authorizer: Authorizer, path: string) {
    super()
    this.authorizer = authorizer
    this.path = path
  }

  get identity(): string {
    return `${this.authorizer.identity} ${this.path}`
  }
}

/** The value of `authorizer.group(g)`. */
export class GroupCheck extends Opaque {
  readonly typeName = 'kubernetes.authorization.GroupCheck'
  readonly authorizer: Authorizer
  readonly group: string

  constructor(authorizer: Authorizer, group: string) {
    super()
    this.authorizer = authorizer
    this.group = group
  }

  get identity(): string {
    return `${this.authorizer.identity} ${this.group}`
  }
}

/** The value of `authorizer.group(g).resource(r)`, and of the methods that narrow it. */
export class ResourceCheck extends Opaque {
  readonly typeName = 'kubernetes.authorization.ResourceCheck'
  readonly authorizer: Authorizer
  readonly resource: CheckedResource

  constructor(authorizer: Authorizer, resource: CheckedResource) {
    super()
    this.authorizer = authorizer
    this.resource = resource
  }

  /** Returns a check that is narrower. */
  with(part: Partial<CheckedResource>): ResourceCheck {
    return new ResourceCheck(this.authorizer, { ...this.resource, ...part })
  }

  get identity(): string {
    return `${this.authorizer.identity} ${JSON.stringify(this.resource)}`
  }
}

/** The value of `check.check(verb)`. */
export class AccessDecision extends Opaque {
  readonly typeName = 'kubernetes.authorization.Decision'
  readonly answer: AccessAnswer

  constructor(answer: AccessAnswer) {
    super()
    this.answer = answer
  }

  get identity(): string {
    return JSON.stringify(this.answer)
  }
}
