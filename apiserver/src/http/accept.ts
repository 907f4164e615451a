import { type MediaType, parseMediaType } from './media-type.ts'

/** Parts between commas that are not in quotes. */
const parts = /(?:[^,"]|"(?:\\.|[^"\\])*"?)+/g

interface Clause extends MediaType {
  readonly quality: number
}

/**
 * Chooses what a client gets, by the clauses of its Accept header: the first by quality, then types before ranges of
 * types, then in the client's order. A range such as `text/*` does not count for a type that a clause names (RFC 9110,
 * 12.5.1).
 *
 * A clause with the parameter `as` asks for another form of the object. It counts only if `formOf` returns that form.
 * @param offered the types that can be served, the usual one first
 * @returns undefined if no clause allows an offered type
 */
export function negotiate<Form>(
  header: string,
  offered: readonly string[],
  formOf: (parameters: ReadonlyMap<string, string>) => Form | undefined,
): { readonly type: string; readonly form: Form | undefined } | undefined {
  const clauses = parseClauses(header)
  const named = new Set(clauses.filter(isPlain).map(({ type }) => type))
  const preferred = clauses
    .filter(({ quality }) => quality > 0)
    .sort((left, right) => right.quality - left.quality || breadth(left.type) - breadth(right.type))
  for (const clause of preferred) {
    const type = offered.find(
      each => rangesOf(each).find(range => range === clause.type || named.has(range)) === clause.type,
    )
    if (type === undefined) continue
    if (isPlain(clause)) return { type, form: undefined }
    const form = formOf(clause.parameters)
    if (form !== undefined) return { type, form }
  }
  return undefined
}

function isPlain({ parameters }: MediaType): boolean {
  return !parameters.has('as')
}

/** Leaves out malformed clauses. */
function parseClauses(header: string): Clause[] {
  return (header.match(parts) ?? []).flatMap(part => {
    const media = parseMediaType(part.trim())
    const quality = Number(media?.parameters.get('q') ?? 1)
    return media !== undefined && quality >= 0 && quality <= 1 ? [{ ...media, quality }] : []
  })
}

/** The type itself and the ranges that have it, the narrowest first. */
function rangesOf(type: string): readonly string[] {
  return [type, `${type.slice(0, type.indexOf('/'))}/*`, '*/*']
}

function breadth(type: string): number {
  return type === '*/*' ? 2 : type.endsWith('/*') ? 1 : 0
}
