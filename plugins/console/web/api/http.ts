import { apiUrl } from './address.ts'
import { type Fields, fieldsOf, isFields, listOf, textOf } from './json.ts'
import { askForSignIn, endSession, token } from './session.ts'

/** What the server says of a request that it refuses. */
export class ApiFailure extends Error {
  override readonly name = 'ApiFailure'
  /** 0 if there was no response. */
  readonly code: number
  readonly reason: string
  readonly causes: readonly { readonly field: string; readonly message: string }[]

  constructor(code: number, status: Fields, fallback: string) {
    super(textOf(status.message) || fallback)
    this.code = code
    this.reason = textOf(status.reason)
    this.causes = listOf(fieldsOf(status.details).causes).map(each => {
      const { field, message } = fieldsOf(each)
      return { field: textOf(field), message: textOf(message) }
    })
  }
}

export interface Asked {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly accept?: string
  readonly contentType?: string
  readonly body?: unknown
  readonly signal?: AbortSignal
}

export interface Responded {
  readonly body: unknown
  /** Texts of `Warning` headers. */
  readonly warnings: readonly string[]
}

/** Sends a request to the API. @throws ApiFailure */
export async function request(path: string, asked: Asked = {}): Promise<Responded> {
  const response = await respond(path, asked)
  const text = await response.text()
  const isJson = (response.headers.get('content-type') ?? '').includes('json')
  const body: unknown = isJson && text !== '' ? JSON.parse(text) : text
  if (!response.ok) throw failureOf(response, body)
  return { body, warnings: warningsOf(response.headers.get('warning')) }
}

/** Returns the text of a response, also of a refusal. @throws ApiFailure if there is no response */
export async function getText(path: string): Promise<{ readonly isOk: boolean; readonly text: string }> {
  const response = await respond(path, { accept: 'text/plain' })
  return { isOk: response.ok, text: await response.text() }
}

/** Returns the body of a response. @throws ApiFailure */
export async function get(path: string, asked?: Asked): Promise<Fields> {
  return fieldsOf((await request(path, asked)).body)
}

async function respond(
  path: string,
  { method = 'GET', accept = 'application/json', contentType = 'application/json', body, signal }: Asked,
): Promise<Response> {
  const used = token.value
  const headers: Record<string, string> = { accept }
  if (used !== undefined) headers.authorization = `Bearer ${used}`
  if (body !== undefined) headers['content-type'] = contentType
  const sent = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
  try {
    const response = await fetch(apiUrl(path), {
      method,
      headers,
      credentials: 'omit',
      cache: 'no-cache',
      ...(sent !== undefined && { body: sent }),
      ...(signal !== undefined && { signal }),
    })
    // Another request may have ended the session, and a new one may have begun.
    if (response.status === 401 && token.value === used) {
      if (used === undefined) askForSignIn()
      else endSession('Your session has ended. Sign in again.')
    }
    return response
  } catch (error) {
    if (signal?.aborted) throw error
    throw new ApiFailure(0, {}, 'The server cannot be reached.')
  }
}

function failureOf({ status, statusText }: Response, body: unknown): ApiFailure {
  const fallback = typeof body === 'string' && body !== '' ? body.slice(0, 500) : `${status} ${statusText}`
  return new ApiFailure(status, isFields(body) ? body : {}, fallback)
}

/** Reads `299 - "text"`, repeated with commas. */
function warningsOf(header: string | null): string[] {
  return [...(header ?? '').matchAll(/\d{3} \S+ "((?:[^"\\]|\\.)*)"/g)].map(([, text = '']) =>
    text.replace(/\\(.)/g, '$1'),
  )
}

/** Returns the words of an error for a person. */
export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
