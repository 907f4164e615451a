/** How long the tokens of service accounts live, in seconds. */
export const tokenLife = Object.freeze({
  /** If the request does not say. */
  defaultSeconds: 60 * 60,
  shortestSeconds: 10 * 60,
  /** A request for a longer life gets this one, as in Kubernetes. */
  longestSeconds: 24 * 60 * 60,
})
