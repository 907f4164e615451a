/**
 * Texts for which a careless parser takes more time than in proportion to their length: repetitions, blanks,
 * separators, nesting, quotes and escapes without an end, and texts that are almost valid.
 */

type Shape = (length: number, valid: string) => string

const of =
  (unit: string): Shape =>
  length =>
    repeat(unit, length)
/** Between valid texts, so that nothing trims it. */
const within =
  (unit: string): Shape =>
  (length, valid) =>
    `${valid}${repeat(unit, length - 2 * valid.length)}${valid}`
/** A regular expression with nested repetitions tries every division of such a text. */
const almost =
  (unit: string): Shape =>
  length =>
    `${repeat(unit, length - 1)}!`

const shapes: Readonly<Record<string, Shape>> = {
  'a letter': of('a'),
  'letters that are not ASCII': of('é'),
  'words between blanks': of('a '),
  'percent signs': of('%'),
  'percent codes': of('%2f'),
  blanks: within(' '),
  tabs: within('\t'),
  commas: within(','),
  'commas with blanks': within(' , '),
  semicolons: within(';'),
  'equals signs': within('='),
  slashes: within('/'),
  dots: within('.'),
  'signs of addresses': within(':@'),
  quotes: within('"'),
  backslashes: within('\\'),
  stars: within('*'),
  'opening brackets': within('('),
  'closing brackets': within(')'),
  'almost words': almost('a'),
  'almost domains': almost('a.'),
  'almost names': almost('a-'),
  'almost numbers': almost('1'),
  'almost valid texts': (length, valid) => `${repeat(valid, length - 1)}!`,
  'valid texts and commas': (length, valid) => repeat(`${valid},`, length),
  'commas after a quote': length => `"${repeat(',', length - 1)}`,
  'escaped quotes': length => `"${repeat('\\"', length - 1)}`,
  'parameters without an end': length => `a/b${repeat(';a="\\"', length - 3)}`,
  'a list in brackets': length => `a in (${repeat('a,', length - 8)}a)`,
  'nested brackets': length => repeat('([{', length / 2) + repeat('}])', length / 2),
}

export const shapeNames: readonly string[] = Object.keys(shapes)

/** Returns a text of at most, and nearly, so many characters. */
export function hostileText(shape: string, length: number, valid: string): string {
  const make = shapes[shape]
  if (make === undefined) throw new Error(`no shape ${shape}`)
  return make(length, valid)
}

export function repeat(unit: string, length: number): string {
  return unit.repeat(Math.max(0, Math.floor(length / unit.length)))
}

/** Returns numbered texts, one after the other, of at most so many characters together. */
export function numbered(make: (n: number) => string, length: number): string {
  let text = ''
  for (let n = 0; ; n++) {
    const next = make(n)
    if (text.length + next.length > length) return text
    text += next
  }
}
