import type { UserInfo } from '@setpoint/controller-runtime/api'

/** The request that posts a review. */
export interface ReviewRequest {
  readonly user: UserInfo
  /** The namespace in the path. Undefined for a cluster-scoped review. */
  readonly namespace: string | undefined
  /** The name of the object whose subresource the review is. */
  readonly name: string | undefined
  /** The metadata in the body, without empty, unknown and server-owned fields. */
  readonly metadata: Readonly<Record<string, unknown>>
  readonly signal: AbortSignal | undefined
}

/** The content of a review: everything but apiVersion, kind and metadata. */
export interface ReviewContent {
  readonly spec?: unknown
  readonly status?: unknown
}

/** The response to a review. */
export interface ReviewAnswer extends ReviewContent {
  /** Besides the name and namespace of the path. */
  readonly metadata?: object
  /** Texts of `Warning` headers. */
  readonly warnings?: readonly string[]
}

/** A resource that reviews are posted to below a name: `serviceaccounts` for `serviceaccounts/<name>/token`. */
interface ReviewParent {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly subresource: string
}

/**
 * What a kind does whose objects are answered and not stored, such as Kubernetes' SelfSubjectAccessReview. It takes
 * POST only. Its requests are authorized, decoded and validated as those of any kind.
 */
export interface Review {
  /** Set if the review is a subresource of another resource. */
  readonly parent?: ReviewParent
  /**
   * @param content of the request: valid by the schema, with its defaults, and without a status
   * @throws ApiError
   */
  respond(content: ReviewContent, request: ReviewRequest): ReviewAnswer | Promise<ReviewAnswer>
}
