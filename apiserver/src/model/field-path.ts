import { echo } from '@setpoint/controller-runtime/internal'

/** Field names and list positions, from an object's root to one of its values. */
export type FieldPath = readonly (string | number)[]

const identifier = /^[A-Za-z_$][\w$-]*$/

/** Characters of a formatted path: enough for every path of a real object. */
const maxLength = 1000

/**
 * Formats a path as Kubernetes does in causes: `spec.tags[2]`, or `spec.map[some.key]` if the key is not an identifier.
 * Long steps and paths are cut.
 */
export function formatPath(path: FieldPath): string {
  let text = ''
  for (const step of path) {
    if (text.length > maxLength) return `${text}…`
    if (typeof step === 'number') text += `[${step}]`
    else {
      const name = echo(step)
      if (!identifier.test(name)) text += `[${name}]`
      else text += text === '' ? name : `.${name}`
    }
  }
  return text
}

/** Splits a text of `formatPath` into its steps. Text that is not a path gives steps that lead nowhere. */
export function parsePath(text: string): FieldPath {
  const steps = text.match(/[^.[\]]+|\[[^\]]*\]/g) ?? []
  return steps.map(step => {
    if (!step.startsWith('[')) return step
    const inner = step.slice(1, -1)
    return /^\d+$/.test(inner) ? Number(inner) : inner
  })
}
