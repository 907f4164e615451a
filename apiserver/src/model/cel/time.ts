import { CelEvaluationError } from './errors.ts'

const nanosPerSecond = 1_000_000_000n

const unitNanos: Readonly<Record<string, bigint>> = {
  h: 3600n * nanosPerSecond,
  m: 60n * nanosPerSecond,
  s: nanosPerSecond,
  ms: 1_000_000n,
  us: 1000n,
  µs: 1000n,
  μs: 1000n,
  ns: 1n,
}

/** A length of time, of at most 10,000 years. */
export class Duration {
  readonly nanos: bigint

  /** @throws CelEvaluationError if it is too long */
  constructor(nanos: bigint) {
    if (nanos > maxDuration || nanos < -maxDuration) throw new CelEvaluationError('duration out of range')
    this.nanos = nanos
  }

  /** Reads Go's format, such as `1h30m` or `-1.5s`. @throws CelEvaluationError */
  static parse(text: string): Duration {
    if (/^[+-]?0$/.test(text)) return new Duration(0n)
    if (text.length > 100 || !/^[+-]?((\d+(\.\d*)?|\.\d+)(h|ms|m|s|us|µs|μs|ns))+$/.test(text))
      throw new CelEvaluationError(`${JSON.stringify(text.slice(0, 100))} is not a duration, such as 1h30m`)
    let nanos = 0n
    for (const [, whole = '', fraction = '', unit = ''] of text.matchAll(
      /(\d*)(?:\.(\d*))?(h|ms|m|s|us|µs|μs|ns)/g,
    )) {
      const scale = unitNanos[unit] ?? 0n
      nanos +=
        BigInt(whole || '0') * scale + (BigInt(fraction || '0') * scale) / 10n ** BigInt(fraction.length)
    }
    return new Duration(text.startsWith('-') ? -nanos : nanos)
  }

  /** Returns the seconds, for example `5400s` or `-0.5s`. */
  toString(): string {
    const size = this.nanos < 0n ? -this.nanos : this.nanos
    const fraction = String(size % nanosPerSecond)
      .padStart(9, '0')
      .replace(/0+$/, '')
    return `${this.nanos < 0n ? '-' : ''}${size / nanosPerSecond}${fraction && `.${fraction}`}s`
  }
}

const maxDuration = 315_576_000_000n * nanosPerSecond

/** The parts of a date that expressions ask for. */
export type DatePart = 'year' | 'month' | 'day' | 'weekday' | 'hour' | 'minute' | 'second' | 'yearDay'

/** A point in time, between the years 1 and 9999. */
export class Timestamp {
  /** Nanoseconds since 1970. */
  readonly nanos: bigint

  /** @throws CelEvaluationError if it is out of range */
  constructor(nanos: bigint) {
    if (nanos < minTimestamp || nanos > maxTimestamp)
      throw new CelEvaluationError('timestamp out of range: years 1 to 9999 are supported')
    this.nanos = nanos
  }

  /** Reads RFC 3339, or a date. @throws CelEvaluationError */
  static parse(text: string): Timestamp {
    const [, date, time, fraction = '', zone] = rfc3339.exec(text) ?? []
    const seconds =
      date === undefined
        ? Number.NaN
        : Date.parse(time === undefined ? date : `${date}T${time}${zone}`) / 1000
    // The platform would turn February 30 into March 1.
    if (date === undefined || !Number.isFinite(seconds) || !new Date(date).toISOString().startsWith(date))
      throw new CelEvaluationError(`${JSON.stringify(text.slice(0, 100))} is not an RFC 3339 time`)
    return new Timestamp(BigInt(seconds) * nanosPerSecond + BigInt(fraction.padEnd(9, '0')))
  }

  toString(): string {
    const [date = ''] = this.#date().toISOString().split('.')
    const rest = this.nanos % nanosPerSecond
    const nanos = rest < 0n ? rest + nanosPerSecond : rest
    const fraction = String(nanos).padStart(9, '0').replace(/0+$/, '')
    return `${date}${fraction && `.${fraction}`}Z`
  }

  /** @param zone an IANA name or an offset such as `+02:00`. Default: UTC. @throws CelEvaluationError for another */
  part(part: DatePart, zone?: string): number {
    const date = zone === undefined ? this.#date() : shifted(this.#date(), zone)
    switch (part) {
      case 'year':
        return date.getUTCFullYear()
      case 'month':
        return date.getUTCMonth()
      case 'day':
        return date.getUTCDate()
      case 'weekday':
        return date.getUTCDay()
      case 'hour':
        return date.getUTCHours()
      case 'minute':
        return date.getUTCMinutes()
      case 'second':
        return date.getUTCSeconds()
      case 'yearDay':
        return Math.floor((date.getTime() - new Date(date).setUTCMonth(0, 1)) / 86_400_000)
    }
  }

  get milliseconds(): number {
    return this.#date().getUTCMilliseconds()
  }

  #date(): Date {
    const millis = this.nanos / 1_000_000n
    return new Date(Number(this.nanos % 1_000_000n < 0n ? millis - 1n : millis))
  }
}

const minTimestamp = -62_135_596_800n * nanosPerSecond
const maxTimestamp = 253_402_300_799n * nanosPerSecond + 999_999_999n

const rfc3339 = /^(\d{4}-\d\d-\d\d)(?:[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d))?$/

/** Returns a date whose UTC parts are the local ones of the zone. */
function shifted(date: Date, zone: string): Date {
  const offset = /^([+-])?(\d\d):(\d\d)$/.exec(zone)
  if (offset !== null) {
    const [, sign, hours, minutes] = offset
    const millis = (Number(hours) * 60 + Number(minutes)) * 60_000
    return new Date(date.getTime() + (sign === '-' ? -millis : millis))
  }
  const parts = Object.fromEntries(
    formatOf(zone)
      .formatToParts(date)
      .map(({ type, value }) => [type, Number(value)]),
  )
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts
  const local = new Date(Date.UTC(2000, month - 1, day, hour, minute, second, date.getUTCMilliseconds()))
  local.setUTCFullYear(year, month - 1, day)
  return local
}

/** The formats of the zones used last. Making one takes longer than using it. */
const formats = new Map<string, Intl.DateTimeFormat>()
const keptFormats = 50

/** @throws CelEvaluationError if there is no such zone */
function formatOf(timeZone: string): Intl.DateTimeFormat {
  let format = formats.get(timeZone)
  if (format !== undefined) return format
  try {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
  } catch {
    throw new CelEvaluationError(`${JSON.stringify(timeZone.slice(0, 100))} is not a time zone`)
  }
  if (formats.size >= keptFormats) formats.clear()
  formats.set(timeZone, format)
  return format
}
