import { isIPv4, isIPv6 } from 'node:net'

/**
 * The formats of texts that Kubernetes 1.34 checks in custom resources (k8s.io/kube-openapi, `strfmt`). It ignores all
 * others, such as `uri-reference`.
 */

type FormatCheck = (text: string) => boolean

const uuid = (version: string, variant: string) =>
  new RegExp(`^[0-9a-f]{8}-?[0-9a-f]{4}-?${version}-?${variant}-?[0-9a-f]{12}$`, 'i')
const anyHex = '[0-9a-f]{4}'
const color = String.raw`\s*(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*`

const expressions: Readonly<Record<string, RegExp>> = {
  bsonobjectid: /^[0-9a-fA-F]{24}$/,
  uuid: uuid(anyHex, anyHex),
  uuid3: uuid('3[0-9a-f]{3}', anyHex),
  uuid4: uuid('4[0-9a-f]{3}', '[89ab][0-9a-f]{3}'),
  uuid5: uuid('5[0-9a-f]{3}', '[89ab][0-9a-f]{3}'),
  ssn: /^(?=.{11}$)\d{3}[- ]?\d{2}[- ]?\d{4}$/,
  hexcolor: /^#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})$/,
  rgbcolor: new RegExp(String.raw`^rgb\(${color},${color},${color}\)$`),
  byte: /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$/,
  mac: /^(?:[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5}|(?::[0-9a-f]{2}){7}|(?::[0-9a-f]{2}){19}|(?:-[0-9a-f]{2}){5}|(?:-[0-9a-f]{2}){7}|(?:-[0-9a-f]{2}){19})|[0-9a-f]{4}(?:(?:\.[0-9a-f]{4}){2}|(?:\.[0-9a-f]{4}){3}|(?:\.[0-9a-f]{4}){9}))$/i,
  email: /^(?:.*<)?[^\s@<>"(),:;[\\\]]+@[^\s@<>"(),:;\\]+>?$/,
}

const functions: Readonly<Record<string, FormatCheck>> = {
  uri: isRequestUri,
  hostname: isHostname,
  ipv4: text => isIPv4(withoutLeadingZeros(text)) || isMappedIPv4(text),
  ipv6: text => isIPv6(text) && !text.includes('%'),
  cidr: isCidr,
  isbn: text => isIsbn10(text) || isIsbn13(text),
  isbn10: isIsbn10,
  isbn13: isIsbn13,
  creditcard: isCreditCard,
  password: () => true,
  date: isDate,
  datetime: isDateTime,
  duration: isDuration,
}

const checks: ReadonlyMap<string, FormatCheck> = new Map([
  ...Object.entries(expressions).map(([name, expression]): [string, FormatCheck] => [
    name,
    text => expression.test(text),
  ]),
  ...Object.entries(functions),
])

/** The names of the formats, without dashes. */
export const kubernetesFormatNames: readonly string[] = [...checks.keys()]

/**
 * Longest text that is checked for a format, except for those that may be long. None of the others describes a longer
 * text.
 */
const maxLength = 2048
const unbounded: ReadonlySet<string> = new Set(['byte', 'password'])

const boundedChecks: ReadonlyMap<string, FormatCheck> = new Map(
  [...checks].map(([name, check]) => [
    name,
    unbounded.has(name) ? check : text => text.length <= maxLength && check(text),
  ]),
)

/** Returns the check of a format, or undefined for one that Kubernetes ignores. Dashes in the name do not count. */
export function kubernetesFormat(name: string): FormatCheck | undefined {
  return boundedChecks.get(name.replaceAll('-', ''))
}

/** As Go's `url.ParseRequestURI`: a URI, or an absolute path. */
function isRequestUri(text: string): boolean {
  if (/[\p{Cc} ]|%(?![0-9A-Fa-f]{2})/u.test(text)) return false
  if (text.startsWith('/')) return true
  const [, rest] = /^[A-Za-z][A-Za-z0-9+.-]*:(.*)$/s.exec(text) ?? []
  if (rest === undefined) return false
  const [, authority] = /^\/\/([^/?]*)/.exec(rest) ?? []
  if (authority === undefined) return true
  const host = authority.slice(authority.lastIndexOf('@') + 1)
  return /^(?:\[[0-9A-Fa-f:.%]+\]|[^\s"<>[\]\\^`{|}:]*)(?::\d*)?$/.test(host)
}

const hostLabel = String.raw`[a-zA-Z0-9\p{S}\p{L}]`
const hostLabels = new RegExp(
  `^(?:${hostLabel}-?|(?:${hostLabel}(?:[-a-zA-Z0-9\\p{S}\\p{L}]{0,61}${hostLabel})?\\.)+[a-zA-Z\\p{L}]{2,63}|${hostLabel}-?${hostLabel}{0,62})$`,
  'u',
)

function isHostname(text: string): boolean {
  const bytes = Buffer.byteLength(text)
  if (bytes > 255) return false
  return hostLabels.test(text) && text.split('.').every(part => Buffer.byteLength(part) <= 63)
}

function withoutLeadingZeros(address: string): string {
  return address.replace(/(^|\.)0+(?=\d)/g, '$1')
}

function isMappedIPv4(text: string): boolean {
  return text.includes('.') && isIPv6(text) && !text.includes('%')
}

function isCidr(text: string): boolean {
  const [, address = '', bits = ''] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? []
  if (isIPv4(withoutLeadingZeros(address))) return Number(bits) <= 32
  return isIPv6(address) && !address.includes('%') && Number(bits) <= 128
}

function digitsOf(text: string): string {
  return text.replace(/[\s-]+/g, '')
}

function isIsbn10(text: string): boolean {
  const digits = digitsOf(text)
  if (!/^(?:\d{9}X|\d{10})$/.test(digits)) return false
  const sum = [...digits].reduce(
    (before, digit, at) => before + (at + 1) * (digit === 'X' ? 10 : Number(digit)),
    0,
  )
  return sum % 11 === 0
}

function isIsbn13(text: string): boolean {
  const digits = digitsOf(text)
  if (!/^\d{13}$/.test(digits)) return false
  const sum = [...digits].reduce((before, digit, at) => before + (at % 2 === 0 ? 1 : 3) * Number(digit), 0)
  return sum % 10 === 0
}

const cardNumber =
  /^(?:4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11})$/

/** With the check digit of Luhn. */
function isCreditCard(text: string): boolean {
  const digits = text.replace(/\D+/g, '')
  if (!cardNumber.test(digits)) return false
  const sum = [...digits].reverse().reduce((before, digit, at) => {
    const value = at % 2 === 0 ? Number(digit) : 2 * Number(digit)
    return before + (value > 9 ? value - 9 : value)
  }, 0)
  return sum % 10 === 0
}

function isDate(text: string): boolean {
  const [, year, month, day] = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text) ?? []
  if (year === undefined || month === undefined || day === undefined) return false
  const date = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(date.getTime()) && date.getUTCDate() === Number(day) && Number(month) >= 1
}

function isDateTime(text: string): boolean {
  const [date = '', time] = text.toLowerCase().split('t')
  if (time === undefined || !isDate(date)) return false
  const [, hours = '', minutes = '', seconds = ''] =
    /^(\d{2}):(\d{2}):(\d{2})(?:.\d+)?(?:z|[+-]\d{2}:\d{2})$/.exec(time) ?? []
  return hours !== '' && hours <= '23' && minutes <= '59' && seconds <= '59'
}

const goDuration = /^[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/
const units = ['ns', 'us', 'µs', 'ms', 's', 'm', 'h', 'd', 'w', 'min', 'hr', 'wk']
const unitPrefixes = ['nano', 'micro', 'milli', 'sec', 'min', 'hour', 'day', 'week']

/** As Go's `time.ParseDuration`, or a text with a number and a unit such as `3 days` somewhere in it. */
function isDuration(text: string): boolean {
  if (goDuration.test(text)) return true
  for (const [, , unit = ''] of text.matchAll(/(\d+)\s*([A-Za-zµ]+)/g)) {
    const name = unit.toLowerCase()
    if (units.includes(name) || unitPrefixes.some(prefix => name.startsWith(prefix))) return true
  }
  return false
}
