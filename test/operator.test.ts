import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Kubectl } from './support/kubectl.ts'
import { Operator } from './support/operator.ts'
import { type OperatorWorld, operatorSettings, startOperatorWorld } from './support/operator-world.ts'
import { freePort } from './support/ports.ts'
import type { Running } from './support/server.ts'

const acquired = /successfully acquired lease/

describe.each(operatorSettings)('an operator in the layout of kubebuilder, on $title', setting => {
  let operator: Operator
  let world: OperatorWorld
  let client: Kubectl
  let kubeconfig: string
  const instances: Running[] = []
  beforeAll(async () => {
    operator = await Operator.prepare()
    world = await startOperatorWorld(setting, operator.serverArgs)
    client = await Kubectl.configured(setting.kubectl, world.kubeconfig)
    await operator.install(client, setting.isKubernetes)
    kubeconfig = setting.secure ? await operator.kubeconfig(client, world.kubeconfig) : world.kubeconfig
  })
  afterAll(async () => {
    await Promise.all(instances.map(instance => instance.kill()))
    await client?.close()
    await world?.end()
    await operator?.remove()
  })

  const kubectl = (...args: string[]) => client.output(args)
  const refusal = async (args: readonly string[], input = '') => {
    const { code, stderr } = await client.run(args, { input })
    expect(code, stderr).not.toBe(0)
    return stderr
  }
  const start = async (port?: number) => {
    const instance = await operator.start(world, kubeconfig, port)
    instances.push(instance)
    return instance
  }
  const greenhouse = (name: string, spec: object, version = 'v1') =>
    JSON.stringify({
      apiVersion: `garden.example.com/${version}`,
      kind: 'Greenhouse',
      metadata: { name },
      spec,
    })
  const apply = (input: string) => client.run(['apply', '--server-side', '-f', '-'], { input })
  const tomatoes = { site: 'hill', minCelsius: 15, maxCelsius: 30, crops: ['tomatoes', 'basil'] }
  const settingsOf = (name: string) => kubectl('get', 'configmap', name, '-o', 'jsonpath={.data}')

  it('gives an object its defaults, reconciles it as its service account, and says so', async () => {
    const leader = await start()
    await leader.says(acquired, 'stderr')
    await leader.says(/Serving webhook server/, 'stderr')
    expect(await apply(greenhouse('one', tomatoes))).toMatchObject({ code: 0, stderr: '' })
    await kubectl('wait', 'greenhouse/one', '--for=condition=Available', '--timeout=60s')
    expect(JSON.parse(await settingsOf('one'))).toEqual({
      ...{ min: '15', max: '30', vents: '3', crops: 'tomatoes,basil' },
    })
    expect(await kubectl('get', 'gh')).toMatch(
      /^NAME +SITE +VENTS +AVAILABLE +AGE\none +hill +3 +True +\S+\n$/,
    )
    await expect
      .poll(() => kubectl('describe', 'gh', 'one'))
      .toMatch(/Normal +Configured +\S+ +greenhouse-controller +settings created\n/)
  })

  it('refuses what its webhooks and its definition refuse, with the fields, and warns', async () => {
    const create = (name: string, spec: object) => refusal(['create', '-f', '-'], greenhouse(name, spec))
    expect(await create('cold', { ...tomatoes, minCelsius: 5 })).toContain(
      'The Greenhouse "cold" is invalid: spec.minCelsius: Invalid value: 5: tomatoes need 12 degrees',
    )
    expect(await create('upside-down', { ...tomatoes, maxCelsius: 14 })).toContain(
      'minCelsius must be below maxCelsius',
    )
    expect(await create('at-sea', { ...tomatoes, site: 'sea' })).toContain(
      'The Greenhouse "at-sea" is invalid: spec.site: ',
    )
    const moved = '{"spec":{"site":"shore"}}'
    expect(await refusal(['patch', 'gh', 'one', '--type=merge', '-p', moved])).toContain(
      'spec.site: Forbidden: a greenhouse does not move',
    )
    await kubectl('annotate', 'gh', 'one', 'garden.example.com/protected=true')
    expect(await refusal(['delete', 'gh', 'one'])).toContain('the greenhouse is protected by its annotation')
    await kubectl('annotate', 'gh', 'one', 'garden.example.com/protected-')
    const { stderr } = await apply(greenhouse('hot', { ...tomatoes, maxCelsius: 50 }))
    expect(stderr).toBe('Warning: few crops grow above 40 degrees\n')
    expect(await kubectl('get', 'gh', '-o', 'name')).toBe(
      'greenhouse.garden.example.com/hot\ngreenhouse.garden.example.com/one\n',
    )
  })

  it('has two versions, which its webhook converts, also for admission', async () => {
    const old = 'greenhouses.v1beta1.garden.example.com'
    expect(JSON.parse(await kubectl('get', old, 'one', '-o', 'jsonpath={.spec}'))).toEqual({
      ...{ site: 'hill', celsius: { from: 15, to: 30 }, crops: 'tomatoes basil', vents: 3 },
    })
    expect(await kubectl('get', old)).toMatch(/^NAME +FROM +TO\nhot +15 +50\none +15 +30\n$/)
    const spec = { site: 'shore', celsius: { from: 2, to: 20 }, crops: 'kale' }
    expect(await apply(greenhouse('old', spec, 'v1beta1'))).toMatchObject({ code: 0, stderr: '' })
    await kubectl('wait', 'gh/old', '--for=condition=Available', '--timeout=60s')
    expect(JSON.parse(await settingsOf('old'))).toMatchObject({ min: '2', vents: '2', crops: 'kale' })
    const cold = greenhouse('cold', { ...spec, crops: 'tomatoes' }, 'v1beta1')
    expect(await refusal(['create', '-f', '-'], cold)).toContain('tomatoes need 12 degrees')
  })

  it('is scaled and selected by kubectl, and restores what it owns', async () => {
    await kubectl('scale', 'gh/one', '--replicas=5')
    await kubectl('wait', 'gh/one', '--for=jsonpath={.status.vents}=5', '--timeout=60s')
    expect(JSON.parse(await settingsOf('one'))).toMatchObject({ vents: '5' })
    expect(await kubectl('get', 'gh', '--field-selector', 'spec.site=shore', '-o', 'name')).toBe(
      'greenhouse.garden.example.com/old\n',
    )
    await kubectl('delete', 'configmap', 'one')
    await expect.poll(() => kubectl('get', 'configmap', '-o', 'name')).toContain('configmap/one\n')
  })

  it('goes on after a restart of the server and the end of its leader', async () => {
    const heir = await start(await freePort())
    await heir.says(/attempting to acquire leader lease/, 'stderr')
    await world.restart()
    expect(await apply(greenhouse('one', { ...tomatoes, minCelsius: 16 }))).toMatchObject({
      code: 0,
      stderr: '',
    })
    await kubectl('wait', 'configmap/one', '--for=jsonpath={.data.min}=16', '--timeout=120s')
    await instances[0]?.kill()
    // Its webhooks have gone with it.
    const { stderr } = await apply(greenhouse('one', { ...tomatoes, minCelsius: 17 }))
    expect(stderr).toMatch(/failed calling webhook "mgreenhouse-v1.kb.io": .*connection refused/)
    await heir.says(acquired, 'stderr')
    await (await start()).says(/Serving webhook server/, 'stderr')
    expect(await apply(greenhouse('one', { ...tomatoes, minCelsius: 17 }))).toMatchObject({
      code: 0,
      stderr: '',
    })
    await kubectl('wait', 'configmap/one', '--for=jsonpath={.data.min}=17', '--timeout=120s')
  })

  it('cleans up before an object goes, and before the definition and its objects go', async () => {
    expect(JSON.parse(await settingsOf('land-register'))).toEqual({ hot: 'hill', old: 'shore', one: 'hill' })
    await kubectl('delete', 'gh', 'hot', '--timeout=60s')
    expect(JSON.parse(await settingsOf('land-register'))).toEqual({ old: 'shore', one: 'hill' })
    await kubectl('delete', 'crd', 'greenhouses.garden.example.com', '--timeout=60s')
    expect(await settingsOf('land-register')).toMatch(/^(\{\})?$/)
    const kinds = () => kubectl('api-resources', '--api-group', 'garden.example.com', '-o', 'name')
    await expect.poll(kinds).toBe('')
    if (!setting.isKubernetes)
      await expect.poll(() => kubectl('get', 'configmaps', '-o', 'name')).toBe('configmap/land-register\n')
  })
})
