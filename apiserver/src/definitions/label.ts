const label = /^[a-z](?:[-a-z0-9]*[a-z0-9])?$/

/** Returns why a text is not a label of RFC 1035, or undefined. */
export function problemOfLabel(text: string): string | undefined {
  if (text.length > 63) return 'must be no more than 63 characters'
  if (label.test(text)) return undefined
  return "must consist of lower case letters, digits and '-', start with a letter, and end with a letter or digit"
}
