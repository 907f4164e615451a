import { X509Certificate } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findCertManager } from '../scripts/clients.mjs'
import { findGoModule } from '../scripts/go-modules.mjs'
import { definitionsOf } from './fixtures/published-definitions/manifests.js'
import { certManager } from './fixtures/published-definitions/projects.js'
import { fieldsOf, textOf } from './support/json.ts'
import { Kubectl } from './support/kubectl.ts'
import { type OperatorWorld, operatorSettings, startOperatorWorld } from './support/operator-world.ts'
import type { Running } from './support/server.ts'
import { need } from './support/tools.ts'

await need(() => Promise.all([findCertManager(), findGoModule(certManager)]))

/**
 * A self-signed root, an issuer of its own, and two certificates of that one. The second is renewed every ten seconds.
 */
const objects = `
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: { name: self-signed }
spec: { selfSigned: {} }
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: { name: root }
spec:
  isCA: true
  commonName: example root
  secretName: root
  privateKey: { algorithm: ECDSA, size: 256 }
  issuerRef: { kind: ClusterIssuer, name: self-signed }
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: { name: example }
spec: { ca: { secretName: root } }
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: { name: web }
spec: { secretName: web, dnsNames: [web.example.com], issuerRef: { name: example } }
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: { name: short }
spec: { secretName: short, duration: 60s, renewBefore: 50s, dnsNames: [short.example.com], issuerRef: { name: example } }
`

const acquired = /successfully acquired lease/

describe.each(operatorSettings)("cert-manager's controllers, unchanged, on $title", setting => {
  let world: OperatorWorld
  let client: Kubectl
  const controllers: Running[] = []
  beforeAll(async () => {
    world = await startOperatorWorld(setting)
    client = await Kubectl.configured(setting.kubectl, world.kubeconfig)
    const [stage] = certManager.stages
    if (stage === undefined) throw new Error('cert-manager has no definitions')
    const definitions = await definitionsOf(await findGoModule(certManager), stage)
    await apply(definitions.map(definition => JSON.stringify(definition)).join('\n'))
    await kubectl('wait', 'crd', '--all', '--for=condition=Established', '--timeout=60s')
  })
  afterAll(async () => {
    await Promise.all(controllers.map(each => each.kill()))
    await client?.close()
    await world?.end()
  })

  const kubectl = (...args: string[]) => client.output(args)
  const apply = (input: string) => client.output(['apply', '--server-side', '-f', '-'], { input })
  const startControllers = async () => {
    const started = world.run(await findCertManager())
    controllers.push(started)
    return started
  }
  const ready = (name: string) =>
    kubectl('wait', `certificate/${name}`, '--for=condition=Ready', '--timeout=120s')
  const secretOf = async (name: string) => {
    const data = fieldsOf(fieldsOf(JSON.parse(await kubectl('get', 'secret', name, '-o', 'json'))).data)
    return Buffer.from(textOf(data['tls.crt']), 'base64')
  }
  const certificateOf = async (name: string) => new X509Certificate(await secretOf(name))
  const revisionOf = async (name: string) =>
    Number(await kubectl('get', 'certificate', name, '-o', 'jsonpath={.status.revision}'))

  it('issue a self-signed certificate, and one of the issuer that has it', async () => {
    const leader = await startControllers()
    await leader.says(acquired, 'stderr')
    await apply(objects)
    await Promise.all(['root', 'web', 'short'].map(ready))
    const [root, web] = await Promise.all(['root', 'web'].map(certificateOf))
    expect(root?.ca).toBe(true)
    expect(root && web?.verify(root.publicKey)).toBe(true)
    expect(web?.subjectAltName).toBe('DNS:web.example.com')
    expect(await kubectl('get', 'clusterissuers,issuers')).toMatch(/self-signed +True[\s\S]*example +True/)
    await expect
      .poll(() => kubectl('describe', 'certificate', 'web'))
      .toMatch(/Normal +Issuing .*certificate has been successfully issued/)
  })

  it('renew a certificate when someone asks for it', async () => {
    const before = await certificateOf('web')
    // As `cmctl renew` does.
    const issuing = { type: 'Issuing', status: 'True', reason: 'ManuallyTriggered', message: 'renew' }
    const patch = [{ op: 'add', path: '/status/conditions/-', value: issuing }]
    await kubectl(
      'patch',
      'certificate',
      'web',
      '--subresource=status',
      '--type=json',
      '-p',
      JSON.stringify(patch),
    )
    await kubectl('wait', 'certificate/web', '--for=jsonpath={.status.revision}=2', '--timeout=120s')
    const after = await certificateOf('web')
    expect(after.serialNumber).not.toBe(before.serialNumber)
    expect(after.verify((await certificateOf('root')).publicKey)).toBe(true)
  })

  it('renew certificates in time, through a restart of the server and the end of their leader', async () => {
    const heir = await startControllers()
    await heir.says(/attempting to acquire leader lease/, 'stderr')
    await world.restart()
    const before = await revisionOf('short')
    await expect.poll(() => revisionOf('short')).toBeGreaterThan(before)
    await controllers[0]?.kill()
    await heir.says(acquired, 'stderr')
    const then = await revisionOf('short')
    await expect.poll(() => revisionOf('short')).toBeGreaterThan(then)
    expect((await certificateOf('short')).verify((await certificateOf('root')).publicKey)).toBe(true)
    expect(await heir.kill('SIGTERM')).toMatchObject({ code: 0 })
  })

  it.skipIf(setting.isKubernetes)('own what they make, so that it goes with the certificate', async () => {
    await kubectl('delete', 'certificates', '--all')
    await expect.poll(() => kubectl('get', 'secrets,certificaterequests', '-o', 'name')).toBe('')
  })
})
