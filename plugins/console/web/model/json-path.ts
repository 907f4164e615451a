import { isFields } from '../api/json.ts'

/** One step of a path. */
type Step = (values: readonly unknown[]) => unknown[]

const steps =
  /\.\.|\.?\[\?\(@\.([\w.]+)\s*==\s*(?:'([^']*)'|"([^"]*)"|([\w.-]+))\)\]|\.?\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(\*|-?\d+))\]|\.((?:[^.[\\]|\\.)+)/y

const compiled = new Map<string, readonly Step[] | undefined>()

/**
 * Returns the first value at the JSONPath of a column, as far as Kubernetes has it in columns: fields, elements, `*` and
 * filters by equality. Undefined if there is none, or the path has something else.
 */
export function valueAt(object: unknown, path: string): unknown {
  let way = compiled.get(path)
  if (!compiled.has(path)) {
    way = compile(path)
    compiled.set(path, way)
  }
  if (way === undefined) return undefined
  return way.reduce<readonly unknown[]>((values, step) => step(values), [object])[0]
}

function compile(path: string): Step[] | undefined {
  const text = path.replace(/^\{(.*)\}$/, '$1').replace(/^\$/, '')
  const found: Step[] = []
  steps.lastIndex = 0
  while (steps.lastIndex < text.length) {
    const match = steps.exec(text)
    if (match === null || match[0] === '..') return undefined
    const [, key, ...rest] = match
    const [single, double, bare, quoted, doubleQuoted, element, field] = rest
    if (key !== undefined) {
      const wanted = single ?? double ?? bare
      found.push(values =>
        values
          .flatMap(each => (Array.isArray(each) ? each : []))
          .filter(each => String(valueAt(each, `.${key}`)) === wanted),
      )
    } else if (element === '*')
      found.push(values =>
        values.flatMap(each => (Array.isArray(each) ? each : isFields(each) ? Object.values(each) : [])),
      )
    else if (element !== undefined)
      found.push(values =>
        values.flatMap(each => (Array.isArray(each) ? each.slice(Number(element)).slice(0, 1) : [])),
      )
    else {
      const name = (field ?? quoted ?? doubleQuoted ?? '').replace(/\\(.)/g, '$1')
      found.push(values =>
        values.flatMap(each => (isFields(each) && Object.hasOwn(each, name) ? [each[name]] : [])),
      )
    }
  }
  return found
}
