/** CEL's own words. A field of such a name is read as `__namespace__`. */
const reserved = new Set(
  `true false null in as break const continue else for function if import let loop package namespace return var void
  while`.split(/\s+/),
)

const escapes: Readonly<Record<string, string>> = {
  __: '__underscores__',
  '.': '__dot__',
  '-': '__dash__',
  '/': '__slash__',
}

/** Returns the name of a field that is a word of CEL; undefined for any other name. */
export function keywordName(field: string): string | undefined {
  return reserved.has(field) ? `__${field}__` : undefined
}

/** Returns the name of a field in expressions; undefined if they cannot name it. */
export function celName(field: string): string | undefined {
  if (reserved.has(field)) return keywordName(field)
  const name = field.replace(/__|[./-]/g, part => escapes[part] ?? part)
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : undefined
}
