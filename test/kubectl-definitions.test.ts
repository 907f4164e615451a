import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Kubectl } from './support/kubectl.ts'
import { type OperatorWorld, operatorSettings, startOperatorWorld } from './support/operator-world.ts'

const folder = fileURLToPath(new URL('fixtures/crontab', import.meta.url))

describe.each(operatorSettings)('kubectl $kubectl and the definitions of a newcomer, on $title', setting => {
  let world: OperatorWorld
  let client: Kubectl
  beforeAll(async () => {
    world = await startOperatorWorld(setting)
    client = await Kubectl.configured(setting.kubectl, world.kubeconfig)
  })
  afterAll(async () => {
    await client?.close()
    await world?.end()
  })

  const kubectl = (...args: string[]) => client.output(args)
  const refusal = async (args: readonly string[], input = '') => {
    const { code, stderr } = await client.run(args, { input })
    expect(code, stderr).toBe(1)
    return stderr
  }

  it('a definition is applied, and its kind is there', async () => {
    expect(await kubectl('apply', '-f', `${folder}/definitions.yaml`)).toBe(
      'customresourcedefinition.apiextensions.k8s.io/crontabs.stable.example.com created\n' +
        'customresourcedefinition.apiextensions.k8s.io/shirts.stable.example.com created\n',
    )
    await kubectl('wait', 'crd', '--all', '--for=condition=Established', '--timeout=60s')
    // kube-apiserver serves the kind and its documents some time after that.
    await expect
      .poll(() => kubectl('api-resources', '--api-group', 'stable.example.com', '--no-headers'))
      .toMatch(
        /^crontabs +ct +stable.example.com\/v1 +true +CronTab\nshirts +stable.example.com\/v1 +true +Shirt\n$/,
      )
    const explained = () => client.run(['explain', 'crontab.spec.cronSpec'])
    await expect.poll(explained).toMatchObject({
      stdout: expect.stringMatching(
        /KIND: +CronTab\n[\s\S]*FIELD: cronSpec <string>\n[\s\S]*When the job runs, in five fields\./,
      ),
    })
  })

  it('an unknown field is named, or left out', async () => {
    const file = ['-f', `${folder}/objects.yaml`]
    expect(await refusal(['create', ...file, '--dry-run=server'])).toMatch(
      /strict decoding error: unknown field "spec.someRandomField"/,
    )
    await kubectl('apply', ...file, '--validate=false')
    const spec = await kubectl('get', 'crontab', 'my-new-cron-object', '-o', 'jsonpath={.spec}')
    expect(JSON.parse(spec)).toEqual({ cronSpec: '* * * * */5', image: 'my-awesome-cron-image', replicas: 1 })
  })

  it('objects have columns, a short name, a category and fields to select them by', async () => {
    expect(await kubectl('get', 'ct')).toMatch(
      /^NAME +SPEC +REPLICAS +AGE\nmy-new-cron-object +\* \* \* \* \*\/5 +1 +\S+\n$/,
    )
    expect(await kubectl('get', 'all', '-o', 'name')).toContain(
      'crontab.stable.example.com/my-new-cron-object\n',
    )
    expect(await kubectl('get', 'shirts', '--field-selector', 'spec.color=blue')).toMatch(
      /^NAME +COLOR +SIZE\nexample1 +blue +S\nexample2 +blue +M\n$/,
    )
    const selector = 'spec.color=green,spec.size=M'
    expect(
      await kubectl('get', 'shirts.stable.example.com', '--field-selector', selector, '-o', 'name'),
    ).toBe('shirt.stable.example.com/example3\n')
  })

  it('an invalid object is refused, with the field of each mistake', async () => {
    const object = {
      ...{ apiVersion: 'stable.example.com/v1', kind: 'CronTab', metadata: { name: 'bad' } },
      spec: { cronSpec: '* * * *', image: 'my-awesome-cron-image', replicas: 15 },
    }
    const message = await refusal(['create', '-f', '-'], JSON.stringify(object))
    expect(message).toMatch(/The CronTab "bad" is invalid: *\n\* spec\.cronSpec: .*\n\* spec\.replicas: .*\n/)
  })

  it('an object is edited, scaled and labelled', async () => {
    await kubectl('patch', 'ct', 'my-new-cron-object', '--type=merge', '-p', '{"spec":{"image":"another"}}')
    expect(await kubectl('scale', '--replicas=5', 'crontabs/my-new-cron-object')).toBe(
      'crontab.stable.example.com/my-new-cron-object scaled\n',
    )
    expect(await refusal(['scale', '--replicas=11', 'crontabs/my-new-cron-object'])).toContain(
      'spec.replicas',
    )
    await kubectl('label', 'ct', 'my-new-cron-object', 'team=a')
    expect(await kubectl('get', 'ct', '-l', 'team=a', '-o', 'jsonpath={.items[*].spec}')).toBe(
      '{"cronSpec":"* * * * */5","image":"another","replicas":5}',
    )
    expect(await kubectl('describe', 'ct', 'my-new-cron-object')).toMatch(/Kind: +CronTab\n/)
  })

  it('a definition goes with its objects, and can come again', async () => {
    await kubectl('delete', '-f', `${folder}/definitions.yaml`, '--timeout=60s')
    await expect
      .poll(() => kubectl('api-resources', '--api-group', 'stable.example.com', '-o', 'name'))
      .toBe('')
    await kubectl('apply', '-f', `${folder}/definitions.yaml`)
    await kubectl('wait', 'crd', '--all', '--for=condition=Established', '--timeout=60s')
    await expect
      .poll(() => client.run(['get', 'crontabs']))
      .toMatchObject({
        ...{ code: 0, stdout: '', stderr: 'No resources found in default namespace.\n' },
      })
  })
})
