import { MIMEType } from 'node:util'

/** A media type as a header gives it: the type in lower case without parameters, and these by lower-case name. */
export interface MediaType {
  readonly type: string
  readonly parameters: ReadonlyMap<string, string>
}

/** One of the media ranges of an Accept header: `type` may be `text/*` or the range of everything. */
export interface AcceptRange extends MediaType {
  /** 0 to 1; 0 excludes. */
  readonly quality: number
}

const json: MediaType = Object.freeze({ type: 'application/json', parameters: new Map() })

/** Reads a Content-Type header, whatever its case and spaces; undefined where there is none or it is no media type. */
export function parseMediaType(header: string | undefined): MediaType | undefined {
  if (header === undefined) return undefined
  // What nearly every request says.
  if (header === json.type) return json
  try {
    const { essence, params } = new MIMEType(header)
    return { type: essence, parameters: new Map(params) }
  } catch {
    return undefined
  }
}

/**
 * The ranges of an Accept header, best first; among equals the order given. Without a header everything is accepted;
 * what is no media range is left out.
 */
export function parseAccept(header: string | undefined): AcceptRange[] {
  const ranges: AcceptRange[] = []
  for (const part of splitList(header ?? '*/*')) {
    const range = parseMediaType(part)
    if (range === undefined) continue
    const quality = Number(range.parameters.get('q') ?? 1)
    ranges.push({ ...range, quality: quality >= 0 && quality <= 1 ? quality : 0 })
  }
  return ranges.sort((a, b) => b.quality - a.quality)
}

/**
 * Whether an Accept header takes `type` in its plain form. The most specific range decides, so
 * a range of all types beside `application/json;q=0` takes all but JSON. Ranges with a parameter `as` ask for another form of the object
 * (such as a Table) and say nothing about the plain one.
 */
export function negotiates(acceptHeader: string | undefined, type: string): boolean {
  return judge(acceptHeader, type).quality > 0
}

/**
 * Which of several types an Accept header likes best, as `negotiates` reads it: of equals the one that it names itself
 * rather than by a range, then the first. Undefined where it takes none.
 */
export function preferredType<T extends string>(
  acceptHeader: string | undefined,
  types: readonly T[],
): T | undefined {
  return types
    .map(type => ({ type, ...judge(acceptHeader, type) }))
    .filter(({ quality }) => quality > 0)
    .sort((a, b) => b.quality - a.quality || Number(b.isNamed) - Number(a.isNamed))[0]?.type
}

function judge(acceptHeader: string | undefined, type: string): { quality: number; isNamed: boolean } {
  const patterns = [type, `${type.slice(0, type.indexOf('/'))}/*`, '*/*']
  const ranges = parseAccept(acceptHeader).filter(range => !range.parameters.has('as'))
  for (const pattern of patterns) {
    // Sorted by quality: the first one is the kindest of those that name the same type.
    const range = ranges.find(candidate => candidate.type === pattern)
    if (range !== undefined) return { quality: range.quality, isNamed: pattern === type }
  }
  return { quality: 0, isNamed: false }
}

/** Cuts at commas that are not in quotes. */
function splitList(header: string): string[] {
  return header.match(/(?:"(?:[^"\\]|\\.)*"|[^,"]|")+/g) ?? []
}
