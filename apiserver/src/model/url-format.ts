/**
 * The format `url`, nearly as in ajv-formats: an absolute URL of http, https or ftp whose host is a public IPv4 address
 * or a name with a dot. The pattern of ajv-formats takes cubic time, because two unbounded parts of its user
 * information overlap. It also allows Unicode's blanks in hosts.
 */

const letter = '[a-z0-9\\u{a1}-\\u{ffff}]'
const label = `(?:${letter}+-)*${letter}+`
const name = `${label}(?:\\.${label})*\\.[a-z\\u{a1}-\\u{ffff}]{2,}`

const privateAddress = [
  '(?:10|127)(?:\\.\\d{1,3}){3}',
  '(?:169\\.254|192\\.168)(?:\\.\\d{1,3}){2}',
  '172\\.(?:1[6-9]|2\\d|3[0-1])(?:\\.\\d{1,3}){2}',
].join('|')
const address = [
  '(?:[1-9]\\d?|1\\d\\d|2[01]\\d|22[0-3])',
  '(?:\\.(?:1?\\d{1,2}|2[0-4]\\d|25[0-5])){2}',
  '\\.(?:[1-9]\\d?|1\\d\\d|2[0-4]\\d|25[0-4])',
].join('')

// No host has an @, so that all attempts to end the user information before it read each character once.
const url = new RegExp(
  `^(?:https?|ftp)://(?:.+@)?(?:(?!${privateAddress})${address}|${name})(?::\\d{2,5})?(?:/.*)?$`,
  'iu',
)

/** Returns true if the text is a URL. Takes linear time. */
export function isUrl(text: string): boolean {
  // Excludes blanks first, because a path that reaches the end cannot fail then.
  return !/\s/u.test(text) && url.test(text)
}
