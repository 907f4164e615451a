import { ApiFailure, wordsOf } from '../api/http.ts'

/** An error in the words of the server, with each field that it names. */
export function Problem({ error, prefix = '' }: { error: unknown; prefix?: string }) {
  const causes = error instanceof ApiFailure ? error.causes.filter(({ field }) => field !== '') : []
  return (
    <div role="alert" class="alert">
      {prefix}
      {wordsOf(error)}
      {causes.length > 1 && (
        <ul>
          {causes.map(({ field, message }) => (
            <li key={`${field} ${message}`}>
              <code>{field}</code>: {message}
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
