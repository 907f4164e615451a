/** The warning of a reconcile that has ended before its calls of the client. The conformance suite fails with it. */
export function pendingCallsWarning(ended: 'returned' | 'failed'): string {
  return `reconcile has ${ended} before its calls of the client: await them`
}
