/** Returns the text of the filter for the selectors of an address. */
export function filterText(query: URLSearchParams): string {
  const fields = query.getAll('fieldSelector')
  const labels = query.getAll('labelSelector')
  if (labels.length === 0) return fields.join(',')
  return [
    ...fields.map(each => `fieldSelector=${each}`),
    ...labels.map(each => `labelSelector=${each}`),
  ].join('&')
}

/** Returns the query with the selectors of a filter: a field selector, or parameters as in an address. */
export function withFilter(query: URLSearchParams, text: string): URLSearchParams {
  const next = new URLSearchParams(query)
  for (const name of ['fieldSelector', 'labelSelector', 'page']) next.delete(name)
  const given = text.trim().replace(/^\?/, '')
  if (given === '') return next
  if (!/^(fieldSelector|labelSelector)=/.test(given)) {
    next.append('fieldSelector', given)
    return next
  }
  // A value may have an ampersand, so only one before a parameter separates.
  for (const part of given.split(/&(?=(?:fieldSelector|labelSelector)=)/)) {
    const at = part.indexOf('=')
    next.append(part.slice(0, at), decoded(part.slice(at + 1)))
  }
  return next
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
