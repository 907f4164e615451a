/** The way from an object's root to one of its values: field names and list positions. */
export type FieldPath = readonly (string | number)[]

const identifier = /^[A-Za-z_$][\w$-]*$/

/**
 * A path as Kubernetes writes it in causes: `spec.tags[2]`, and `spec.map[some.key]` for keys that would be
 * misread after a dot.
 */
export function formatPath(path: FieldPath): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number' || !identifier.test(step)) text += `[${step}]`
    else text += text === '' ? step : `.${step}`
  }
  return text
}
