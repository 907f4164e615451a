/** Returns what is wrong with a function of a declaration that must return its result, not a promise or an iterator. */
export function problemOfFunction(given: unknown): string | undefined {
  if (typeof given !== 'function') return 'must be a function'
  const isPlain = Object.prototype.toString.call(given) === '[object Function]'
  return isPlain ? undefined : 'must be synchronous: neither async nor a generator'
}
