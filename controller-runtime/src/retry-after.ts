/** Seconds of `Retry-After` where nothing better is known, as in Kubernetes. */
export const retryAfterSeconds = 1
