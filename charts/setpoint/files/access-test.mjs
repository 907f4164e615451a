// `helm test` runs this: the release is ready, refuses requests without a token, and accepts requests with one. The
// credential of the controllers issues tokens of their service account.
const { SERVER, TOKEN, SERVICE_ACCOUNT, ISSUER_TOKEN } = process.env
const expected = [
  ['/readyz', {}, 200],
  ['/apis', {}, 401],
  ['/apis', { token: TOKEN }, 200],
]
if (SERVICE_ACCOUNT) {
  const [namespace, name] = SERVICE_ACCOUNT.split('/')
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`
  expected.push([path, { method: 'POST', token: ISSUER_TOKEN }, 201])
}
for (const [path, { method = 'GET', token }, status] of expected) {
  const answer = await fetch(SERVER + path, {
    method,
    headers: {
      ...(token && { authorization: `Bearer ${token}` }),
      ...(method === 'POST' && { 'content-type': 'application/json' }),
    },
    body: method === 'POST' ? '{}' : undefined,
    signal: AbortSignal.timeout(10_000),
  })
  const who = token ? 'with the token' : 'without a token'
  if (answer.status !== status) throw new Error(`${path} ${who}: ${answer.status} instead of ${status}`)
  process.stdout.write(`${path} ${who}: ${status}\n`)
}
