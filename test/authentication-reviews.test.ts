import { once } from 'node:events'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { join } from 'node:path'
import { text as textOfStream } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, refusalOf } from './support/api.ts'
import { makeCertificates } from './support/certificates.ts'
import { fieldsOf } from './support/json.ts'
import { Kubectl } from './support/kubectl.ts'
import { runProgram, startSharedServer } from './support/server.ts'
import { Users } from './support/users.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

const root = '/apis/authentication.k8s.io/v1'
const authenticated = 'system:authenticated'

describe('reviews of authentication', () => {
  let world: SharedWorld
  let users: Users<'ann' | 'vic'>
  let ann: Api
  let vic: Api

  beforeAll(async () => {
    users = await Users.make({ ann: ['setpoint:admins'], vic: ['setpoint:viewers'] })
    world = await startSharedWorld('embedded', [], { args: users.args })
    ann = users.api(world.server.url, 'ann')
    vic = users.api(world.server.url, 'vic')
  })
  afterAll(async () => {
    await world?.end()
    await users?.remove()
  })

  it('tell an administrator who he is', async () => {
    const { status, body } = await ann.post(`${root}/selfsubjectreviews`, {})
    expect([status, body]).toEqual([
      201,
      {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'SelfSubjectReview',
        metadata: { creationTimestamp: expect.stringMatching(/^\d{4}-.*Z$/) },
        status: { userInfo: { username: 'ann', groups: ['setpoint:admins', authenticated] } },
      },
    ])
  })

  it('tell whose a token is', async () => {
    const review = (spec: object) => ann.post(`${root}/tokenreviews`, { spec })
    const token = users.tokenOf('vic')
    expect((await review({ token })).body).toMatchObject({
      spec: { token },
      status: {
        authenticated: true,
        user: { username: 'vic', groups: ['setpoint:viewers', authenticated] },
        audiences: ['setpoint/serviceaccount'],
      },
    })
    for (const spec of [{ token: 'wrong' }, { token, audiences: ['vault'] }])
      expect((await review(spec)).body).toMatchObject({
        status: { authenticated: false, user: {}, error: expect.stringMatching(/./) },
      })
    refusalOf(await review({ token: 1 }), 422)
    for (const spec of [{}, { token: '' }, { token: null }]) refusalOf(await review(spec), 400)
  })

  it('of the tokens of others need a permission', async () => {
    refusalOf(await vic.post(`${root}/tokenreviews`, { spec: { token: users.tokenOf('ann') } }), 403)
  })

  it('are in discovery', async () => {
    expect((await ann.get(root)).body).toMatchObject({
      resources: expect.arrayContaining([
        expect.objectContaining({ name: 'selfsubjectreviews', verbs: ['create'] }),
        expect.objectContaining({ name: 'tokenreviews', verbs: ['create'] }),
      ]),
    })
  })
})

it('kubectl with a client certificate knows who it is, and gets a token for a service account', async () => {
  const { ca, cert, key, folder, client } = await makeCertificates()
  const user = await client('/CN=ann/O=setpoint:admins')
  const paths = { cert: join(folder, 'ann.pem'), key: join(folder, 'ann.key') }
  await Promise.all([writeFile(paths.cert, user.cert), writeFile(paths.key, user.key)])
  const server = await startSharedServer({ args: ['--tls-cert', cert, '--tls-key', key, '--client-ca', ca] })
  const kubectl = await Kubectl.open('1.34')
  try {
    await mkdir(join(kubectl.home, '.kube'))
    const output = ['--output', join(kubectl.home, '.kube/config')]
    const own = ['--client-certificate', paths.cert, '--client-key', paths.key]
    const made = ['kubeconfig', '--server', server.url, '--server-ca', ca, ...own, ...output]
    expect(await runProgram(made)).toMatchObject({ code: 0, stderr: '' })
    const { status } = fieldsOf(JSON.parse(await kubectl.output(['auth', 'whoami', '--output', 'json'])))
    expect(status).toMatchObject({
      userInfo: { username: 'ann', groups: ['setpoint:admins', authenticated] },
    })
    await kubectl.output(['create', 'serviceaccount', 'robot'])
    const token = (await kubectl.output(['create', 'token', 'robot', '--duration', '20m'])).trim()
    const options = { headers: { authorization: `Bearer ${token}` }, ca: await readFile(ca) }
    const sent = request(`${server.url}/metrics`, options).end()
    const [response] = await once(sent, 'response')
    expect(fieldsOf(JSON.parse(await textOfStream(response))).message).toContain(
      'User "system:serviceaccount:default:robot" cannot',
    )
    const alone = await runProgram(['kubeconfig', ...own.slice(0, 2)])
    expect([alone.code, alone.stderr]).toEqual([2, expect.stringContaining('--client-key')])
  } finally {
    await kubectl.close()
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
})
