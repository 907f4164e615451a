import { CelEvaluationError } from './errors.ts'

const absolute = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/([^/?\s]*)([^?\s]*)(?:\?(\S*))?$/
const pathOnly = /^()()(\/[^?\s]*)(?:\?(\S*))?$/

/** An absolute URI or an absolute path, with its parts as written. */
export class Url {
  readonly text: string
  readonly scheme: string
  /** The host with its port, without the user. */
  readonly host: string
  readonly path: string
  readonly query: string

  private constructor(text: string, scheme: string, host: string, path: string, query: string) {
    this.text = text
    this.scheme = scheme
    this.host = host
    this.path = path
    this.query = query
  }

  static read(text: string): Url | undefined {
    const match = absolute.exec(text) ?? pathOnly.exec(text)
    if (match === null || !URL.canParse(text, 'http://localhost')) return undefined
    const [, scheme = '', authority = '', path = '', query = ''] = match
    const host = authority.slice(authority.lastIndexOf('@') + 1)
    return new Url(text, scheme.toLowerCase(), host, path, query)
  }

  /** @throws CelEvaluationError */
  static parse(text: string): Url {
    const url = Url.read(text)
    if (url === undefined)
      throw new CelEvaluationError(`${JSON.stringify(text.slice(0, 100))} is not an absolute URI or path`)
    return url
  }

  get hostname(): string {
    return this.host.replace(/:\d*$/, '').replace(/^\[(.*)\]$/, '$1')
  }

  get port(): string {
    return /:(\d*)$/.exec(this.host)?.[1] ?? ''
  }
}
