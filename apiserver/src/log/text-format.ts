const colours: Readonly<Record<string, string>> = Object.freeze({
  trace: '90',
  debug: '90',
  info: '32',
  warn: '33',
  error: '31',
  fatal: '31;1',
})

/**
 * Formats one JSON line of pino for people: `time level message field=value ...`, and the stack of an error with its
 * causes and lines of source on the lines below. The time is local. Control characters are escaped: they could drive a
 * terminal.
 */
export function formatText(line: string, { colour }: { readonly colour: boolean }): string {
  const paint = (code: string, text: string) => (colour ? `\u001b[${code}m${text}\u001b[0m` : text)
  const { time, level, msg, err, ...fields }: Record<string, unknown> = JSON.parse(line)
  const name = String(level)
  const label = paint(colours[name] ?? '0', name.toUpperCase().padEnd(5))
  const head = [paint('90', clockTime(Number(time))), label, escapeControls(String(msg ?? ''))]
  const pairs = Object.entries(fields).map(
    ([name, value]) => `${paint('36', `${name}=`)}${formatValue(value)}`,
  )
  return `${[...head, ...pairs].join(' ')}\n${err === undefined ? '' : formatError(err)}`
}

function clockTime(ms: number): string {
  const date = new Date(ms)
  const two = (value: number) => String(value).padStart(2, '0')
  const milliseconds = String(date.getMilliseconds()).padStart(3, '0')
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${milliseconds}`
}

function formatValue(value: unknown): string {
  const isPlain = typeof value === 'string' && /^[^\s"=\p{C}]+$/u.test(value)
  return isPlain ? value : escapeControls(JSON.stringify(value) ?? 'undefined')
}

/** As pino serializes errors: with `stack`, and `cause` in the same form. */
function formatError(err: unknown): string {
  const lines: string[] = []
  let lead = ''
  for (let at: unknown = err; at !== undefined; lead = 'caused by: ') {
    const { stack, cause }: { stack?: unknown; cause?: unknown } =
      typeof at === 'object' && at !== null ? at : {}
    const text = typeof stack === 'string' ? stack : (JSON.stringify(at) ?? '')
    lines.push(...`${lead}${text}`.split('\n').map(indented))
    at = cause
  }
  const frame = typeof err === 'object' && err !== null && 'frame' in err ? err.frame : undefined
  if (typeof frame === 'string') lines.push(...`\n${frame}\n`.split('\n').map(indented))
  return lines.join('')
}

function indented(line: string): string {
  return `    ${escapeControls(line)}`.trimEnd().concat('\n')
}

function escapeControls(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    character => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  )
}
