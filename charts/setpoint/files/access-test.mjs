// `helm test` runs this: the release is ready, refuses requests without a token, and accepts requests with one.
const { SERVER, TOKEN } = process.env
const expected = [
  ['/readyz', {}, 200],
  ['/apis', {}, 401],
  ['/apis', { authorization: `Bearer ${TOKEN}` }, 200],
]
for (const [path, headers, status] of expected) {
  const answer = await fetch(SERVER + path, { headers, signal: AbortSignal.timeout(10_000) })
  const who = headers.authorization ? 'with the token' : 'without a token'
  if (answer.status !== status) throw new Error(`${path} ${who}: ${answer.status} instead of ${status}`)
  process.stdout.write(`${path} ${who}: ${status}\n`)
}
