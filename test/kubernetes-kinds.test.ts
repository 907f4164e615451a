import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Answer, type Api, listOf, objectOf, refusalOf } from './support/api.ts'
import { arrayOf, type Fields, fieldsOf } from './support/json.ts'
import { type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

/** Kubernetes' own kinds, as Kubernetes 1.34 has them. */
describe.each(stores)('the built-in kinds on the %s store', store => {
  let world: SharedWorld
  let api: Api

  beforeAll(async () => {
    world = await startSharedWorld(store, [])
    api = world.api
    objectOf(await api.post('/api/v1/namespaces', { metadata: { name: 'a' } }), 201)
  })
  afterAll(() => world?.end())

  const at = (plural: string, name = '') => `/api/v1/namespaces/a/${plural}${name && `/${name}`}`
  const create = async (plural: string, name: string, content: object) =>
    objectOf(await api.post(at(plural), { metadata: { name }, ...content }), 201).raw
  const replace = (plural: string, name: string, content: object) =>
    api.put(at(plural, name), { metadata: { name }, ...content })
  const fieldsRefused = (answer: Answer) => refusalOf(answer, 422).causes.map(({ field }) => field)

  /** Returns the rows of a table, by the names of its columns, without the ages. */
  const table = async (path: string): Promise<Fields[]> => {
    const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io'
    const { columnDefinitions, rows } = fieldsOf((await api.get(path, { headers: { accept } })).body)
    const columns = arrayOf(columnDefinitions).map(column => String(fieldsOf(column).name))
    return arrayOf(rows).map(row => {
      const cells = arrayOf(fieldsOf(row).cells)
      return Object.fromEntries(columns.map((column, index) => [column, cells[index]]))
    })
  }

  it('take bodies without apiVersion and kind, but not with others', async () => {
    expect(await create('configmaps', 'bare', { data: { a: '1' } })).toMatchObject({
      apiVersion: 'v1',
      kind: 'ConfigMap',
    })
    refusalOf(await api.post(at('configmaps'), { kind: 'Secret', metadata: { name: 'x' } }), 400)
    refusalOf(await api.post(at('configmaps'), { apiVersion: 'v2', metadata: { name: 'x' } }), 400)
  })

  it('have no spec and no status unless they declare them', async () => {
    const plain = { metadata: { name: 'plain' }, data: { a: '1' } }
    const answer = await api.post(`${at('configmaps')}?fieldValidation=Strict`, plain)
    const created = objectOf(answer, 201).raw
    expect(Object.keys(created).sort()).toEqual(['apiVersion', 'data', 'kind', 'metadata'])
    const warned = await api.mergePatch(at('configmaps', 'plain'), { status: { phase: 'x' } })
    expect(warned.headers.get('warning')).toContain('unknown field \\"status\\"')
    const strict = await api.mergePatch(`${at('configmaps', 'plain')}?fieldValidation=Strict`, { extra: 1 })
    expect(refusalOf(strict, 400).message).toContain('unknown field "extra"')
  })

  it('are applied field by field in all their fields', async () => {
    const apply = (manager: string, data: object) =>
      api.request(
        'PATCH',
        `${at('configmaps', 'applied')}?fieldManager=${manager}`,
        { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'applied' }, data },
        { type: 'application/apply-patch+yaml' },
      )
    objectOf(await apply('one', { a: '1' }), 201)
    expect(objectOf(await apply('two', { b: '2' })).raw.data).toEqual({ a: '1', b: '2' })
    expect(refusalOf(await apply('two', { a: '2' }), 409).causes).toMatchObject([{ field: '.data.a' }])
    expect(objectOf(await apply('one', {})).raw.data).toEqual({ b: '2' })
  })

  it('are deleted as a collection, but for namespaces', async () => {
    await create('configmaps', 'gone', { metadata: { name: 'gone', labels: { end: 'now' } } })
    listOf(await api.delete(`${at('configmaps')}?labelSelector=end%3Dnow`))
    refusalOf(await api.get(at('configmaps', 'gone')), 404)
    refusalOf(await api.delete('/api/v1/namespaces'), 405)
  })

  describe('ConfigMap', () => {
    it('has text and bytes under distinct keys', async () => {
      const content = { data: { 'a.txt': 'ä' }, binaryData: { b: 'AAE=' } }
      expect(await create('configmaps', 'both', content)).toMatchObject(content)
      const refused = (content: object) =>
        api.post(at('configmaps'), { metadata: { name: 'refused' }, ...content }).then(fieldsRefused)
      expect(await refused({ data: { 'a b': '' } })).toEqual(['data[a b]'])
      expect(await refused({ data: { '..': '' } })).toEqual(['data[..]'])
      expect(await refused({ data: { a: 1 } })).toEqual(['data.a'])
      expect(await refused({ data: { a: '' }, binaryData: { a: '' } })).toEqual(['data.a'])
      expect(await refused({ binaryData: { a: 'no' } })).toEqual(['binaryData.a'])
      const broken = { binaryData: { a: 'YWFh\r\nYWFh\n' } }
      expect(await create('configmaps', 'broken', broken)).toMatchObject({ binaryData: { a: 'YWFhYWFh' } })
      expect(await refused({ binaryData: { a: 'YWFh\nno' } })).toEqual(['binaryData.a'])
      const half = 'x'.repeat(600_000)
      expect(await refused({ data: { a: half, b: half } })).toEqual(['data'])
    })

    it('is immutable once it says so', async () => {
      await create('configmaps', 'fixed', { data: { a: '1' }, immutable: true })
      const labelled = { metadata: { name: 'fixed', labels: { l: 'm' } }, data: { a: '1' }, immutable: true }
      objectOf(await replace('configmaps', 'fixed', labelled))
      expect(fieldsRefused(await replace('configmaps', 'fixed', { data: { a: '2' } }))).toEqual([
        'immutable',
        'data',
      ])
      expect((await api.delete(at('configmaps', 'fixed'))).status).toBe(200)
    })

    it('shows the number of its values', async () => {
      await create('configmaps', 'shown', { data: { a: '1', b: '2' }, binaryData: { c: '' } })
      expect(await table(at('configmaps', 'shown'))).toMatchObject([{ Name: 'shown', Data: 3 }])
    })
  })

  describe('Secret', () => {
    const base64 = (text: string) => Buffer.from(text).toString('base64')
    const refused = (content: object, metadata: object = {}) =>
      api.post(at('secrets'), { metadata: { name: 'refused', ...metadata }, ...content }).then(fieldsRefused)

    it('merges stringData into data and never returns it', async () => {
      const created = await create('secrets', 'merged', {
        data: { a: base64('1'), b: base64('2') },
        stringData: { b: '3' },
      })
      expect(created).toMatchObject({ type: 'Opaque', data: { a: base64('1'), b: base64('3') } })
      expect(created).not.toHaveProperty('stringData')
      const patched = await api.mergePatch(at('secrets', 'merged'), { stringData: { a: '4' } })
      expect(objectOf(patched).raw).toMatchObject({ data: { a: base64('4'), b: base64('3') } })
      expect(await refused({ stringData: { a: 1 } })).toEqual(['stringData.a'])
      expect(await refused({ data: { a: 'no' } })).toEqual(['data.a'])
      const broken = await api.mergePatch(at('secrets', 'merged'), { data: { a: 'YWFh\nYWFh' } })
      expect(objectOf(broken).raw).toMatchObject({ data: { a: 'YWFhYWFh', b: base64('3') } })
    })

    it('has the keys of its type, which cannot change', async () => {
      expect(await refused({ type: 'kubernetes.io/tls' })).toEqual(['data[tls.crt]', 'data[tls.key]'])
      expect(await refused({ type: 'kubernetes.io/basic-auth' })).toEqual(['data.username', 'data.password'])
      const ssh = { type: 'kubernetes.io/ssh-auth' }
      for (const stringData of [{}, { 'ssh-privatekey': '' }])
        expect(await refused({ ...ssh, stringData })).toEqual(['data.ssh-privatekey'])
      for (const text of ['{', '[]', '1']) {
        const stringData = { '.dockerconfigjson': text }
        const registry = { type: 'kubernetes.io/dockerconfigjson', stringData }
        expect(await refused(registry)).toEqual(['data[.dockerconfigjson]'])
      }
      const token = { type: 'kubernetes.io/service-account-token' }
      expect(await refused(token)).toEqual(['metadata.annotations[kubernetes.io/service-account.name]'])
      await create('secrets', 'typed', {
        type: 'kubernetes.io/tls',
        stringData: { 'tls.crt': '', 'tls.key': '' },
      })
      const changed = await api.mergePatch(at('secrets', 'typed'), { type: 'Opaque' })
      expect(fieldsRefused(changed)).toEqual(['type'])
    })

    it('is selected by its type', async () => {
      await create('secrets', 'selected', { type: 'example.com/selected' })
      const { names } = listOf(await api.get(`${at('secrets')}?fieldSelector=type%3Dexample.com/selected`))
      expect(names).toEqual(['selected'])
    })

    it('shows its type and the number of its values', async () => {
      await create('secrets', 'shown', { stringData: { a: '1' } })
      expect(await table(at('secrets', 'shown'))).toMatchObject([{ Name: 'shown', Type: 'Opaque', Data: 1 }])
    })
  })

  it('ServiceAccount has references to secrets', async () => {
    const content = { secrets: [{ name: 's' }], imagePullSecrets: [{ name: 'p' }] }
    expect(await create('serviceaccounts', 'robot', content)).toMatchObject(content)
    expect(await table(at('serviceaccounts', 'robot'))).toMatchObject([{ Name: 'robot', Secrets: 1 }])
    refusalOf(await api.post(`${at('serviceaccounts', 'missing')}/token`, { spec: {} }), 404)
  })

  describe('ResourceQuota', () => {
    it('refuses what exceeds it, and shows what is used', async () => {
      const quotas = '/api/v1/namespaces/bounded/resourcequotas'
      const secrets = '/api/v1/namespaces/bounded/secrets'
      objectOf(await api.post('/api/v1/namespaces', { metadata: { name: 'bounded' } }), 201)
      const spec = { hard: { 'count/secrets': 1, 'limits.cpu': '2' } }
      const made = objectOf(await api.post(quotas, { metadata: { name: 'team' }, spec }), 201)
      expect(made.spec).toEqual({ hard: { 'count/secrets': '1', 'limits.cpu': '2' } })
      objectOf(await api.post(secrets, { metadata: { name: 'a' } }), 201)
      const refusal = refusalOf(await api.post(secrets, { metadata: { name: 'b' } }), 403)
      expect(refusal).toMatchObject({
        reason: 'Forbidden',
        message:
          'secrets "b" is forbidden: exceeded quota: team, requested: count/secrets=1, used: count/secrets=1, limited: count/secrets=1',
      })
      await expect
        .poll(() => table(`${quotas}/team`), { timeout: 10_000 })
        .toMatchObject([{ Name: 'team', Request: 'count/secrets: 1/1', Limit: 'limits.cpu: 0/2' }])
    })

    it('is validated as in Kubernetes, and has no scopes', async () => {
      const hard = { 'count/x': '-1', 'count/y': '1500m', 'requests.cpu': '1500m', cats: '1', secrets: 'x' }
      const spec = { hard, scopes: ['Terminating'] }
      const refused = await api.post(at('resourcequotas'), { metadata: { name: 'x' }, spec })
      expect(fieldsRefused(refused)).toEqual([
        'spec.hard[count/x]',
        'spec.hard[count/y]',
        'spec.hard.cats',
        'spec.hard.secrets',
        'spec.scopes',
      ])
      const system = await api.post('/api/v1/namespaces/setpoint-system/resourcequotas', {
        metadata: { name: 'x' },
      })
      expect(fieldsRefused(system)).toEqual(['metadata.namespace'])
    })
  })

  it('Lease takes what client-go writes, and shows the holder', async () => {
    const leases = '/apis/coordination.k8s.io/v1/namespaces/a/leases'
    const spec = {
      holderIdentity: 'one',
      leaseDurationSeconds: 15,
      acquireTime: '2026-01-31T10:00:00.000000Z',
      renewTime: null,
      leaseTransitions: 0,
    }
    const metadata = { name: 'work.example.com', creationTimestamp: null }
    const created = objectOf(await api.post(leases, { metadata, spec }), 201)
    expect(created.spec).toEqual({ ...spec, renewTime: undefined })
    expect(await table(`${leases}/work.example.com`)).toMatchObject([{ Holder: 'one' }])
    const refused = await api.mergePatch(`${leases}/work.example.com`, {
      spec: { leaseDurationSeconds: 0, preferredHolder: 'two' },
    })
    expect(fieldsRefused(refused)).toEqual(['spec.leaseDurationSeconds', 'spec.preferredHolder'])
  })

  describe('Event', () => {
    const grouped = '/apis/events.k8s.io/v1/namespaces/a/events'
    const involvedObject = { apiVersion: 'v1', kind: 'ConfigMap', namespace: 'a', name: 'about', uid: 'u' }
    const counted = {
      involvedObject,
      ...{ reason: 'Seen', message: 'twice', type: 'Normal', count: 2, eventTime: null },
      firstTimestamp: '2026-01-31T10:00:00Z',
      lastTimestamp: '2026-01-31T10:05:00Z',
      source: { component: 'watcher', host: 'here' },
    }

    it('is one object in both groups', async () => {
      const first = await create('events', 'one.1', counted)
      const seen = objectOf(await api.get(`${grouped}/one.1`))
      expect(seen.raw).toMatchObject({
        apiVersion: 'events.k8s.io/v1',
        regarding: involvedObject,
        note: 'twice',
        deprecatedCount: 2,
        deprecatedSource: counted.source,
      })
      expect(seen.metadata.uid).toBe(fieldsOf(first.metadata).uid)
      const series = { count: 3, lastObservedTime: '2026-01-31T10:06:00.000000Z' }
      objectOf(await api.mergePatch(`${grouped}/one.1`, { series }))
      expect(objectOf(await api.get(at('events', 'one.1'))).raw).toMatchObject({
        ...{ message: 'twice', count: 2, series },
      })
      expect((await api.delete(`${grouped}/one.1`)).status).toBe(200)
      refusalOf(await api.get(at('events', 'one.1')), 404)
    })

    it('is selected by the fields of each group', async () => {
      await create('events', 'two.1', counted)
      await create('events', 'two.2', { ...counted, type: 'Warning', involvedObject: { namespace: 'a' } })
      const names = async (path: string, selector: string) =>
        listOf(await api.get(`${path}?fieldSelector=${encodeURIComponent(selector)}`)).names
      expect(await names(at('events'), 'involvedObject.name=about,involvedObject.kind=ConfigMap')).toEqual([
        'two.1',
      ])
      expect(await names(grouped, 'regarding.name=about,regarding.uid=u')).toEqual(['two.1'])
      expect(await names('/api/v1/events', 'type=Warning,source=watcher')).toEqual(['two.2'])
      expect(await names(grouped, 'type!=Warning,metadata.namespace=a')).toEqual(['two.1'])
    })

    it('is watched in each group', async () => {
      const watch = async (path: string) =>
        (await api.get(`${path}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dthree`)).text
      await create('events', 'three', counted)
      const [core, group] = await Promise.all([watch(at('events')), watch(grouped)])
      expect(core).toContain('"message":"twice"')
      expect(group).toContain('"note":"twice"')
    })

    it('is in the namespace of its object, and complete if it has an eventTime', async () => {
      const refused = (path: string, content: object) =>
        api.post(path, { metadata: { name: 'refused' }, ...content }).then(fieldsRefused)
      const elsewhere = { ...counted, involvedObject: { ...involvedObject, namespace: 'b' } }
      expect(await refused(at('events'), elsewhere)).toEqual(['involvedObject.namespace'])
      expect(await refused(at('events'), { ...counted, involvedObject: {} })).toEqual([
        'involvedObject.namespace',
      ])
      const recent = { involvedObject, eventTime: '2026-01-31T10:00:00.000000Z', reason: 'Seen' }
      expect(await refused(at('events'), recent)).toEqual([
        ...['reportingComponent', 'reportingInstance', 'action'],
      ])
      expect(await refused(at('events'), { ...recent, involvedObject: {} })).toContain(
        'involvedObject.namespace',
      )
    })

    describe('of events.k8s.io', () => {
      const regarding = involvedObject
      const complete = {
        ...{ regarding, reason: 'Seen', note: 'once', type: 'Normal', action: 'Look' },
        ...{ reportingController: 'example.com/watcher', reportingInstance: 'watcher-1' },
        eventTime: '2026-01-31T10:00:00.5Z',
      }
      const post = (name: string, content: object) => api.post(grouped, { metadata: { name }, ...content })

      it.each<[string, object, readonly string[]]>([
        ['a time and a type', { regarding }, ['eventTime', 'type']],
        [
          'a reporter, an action and a reason',
          { regarding, eventTime: complete.eventTime, type: 'Normal' },
          ['reportingComponent', 'reportingInstance', 'action', 'reason'],
        ],
        [
          'a qualified name of the reporter',
          { ...complete, reportingController: 'a b' },
          ['reportingComponent'],
        ],
        ['a known type', { ...complete, type: 'Strange' }, ['type']],
        [
          'no old field',
          {
            ...{ ...complete, deprecatedCount: 1, deprecatedSource: { component: 'watcher' } },
            ...{ deprecatedFirstTimestamp: complete.eventTime, deprecatedLastTimestamp: complete.eventTime },
          },
          ['firstTimestamp', 'lastTimestamp', 'count', 'source'],
        ],
        [
          'a whole series',
          { ...complete, series: { count: 1 } },
          ['series.count', 'series.lastObservedTime'],
        ],
      ])('a new one needs %s', async (_, content, fields) => {
        expect(fieldsRefused(await post('refused', content))).toEqual(fields)
      })

      it('can be created in `v1` without what is needed there', async () => {
        await create('events', 'five', { involvedObject, reason: 'Seen', type: 'Strange' })
        objectOf(await api.mergePatch(`${grouped}/five`, { metadata: { labels: { a: 'b' } } }))
      })

      it('changes in its series only, whichever zero values the client sends', async () => {
        const zero = { deprecatedSource: {}, deprecatedFirstTimestamp: null, deprecatedCount: 0 }
        objectOf(await post('six', { ...complete, ...zero }), 201)
        // As a client in Go writes it.
        const read = { ...complete, eventTime: '2026-01-31T10:00:00.500000Z', deprecatedSource: {} }
        const put = (content: object) => api.put(`${grouped}/six`, { metadata: { name: 'six' }, ...content })
        const series = { count: 2, lastObservedTime: '2026-01-31T10:01:00.000000Z' }
        expect(objectOf(await put({ ...read, series })).raw.series).toEqual(series)
        expect(fieldsRefused(await put({ ...read, series: { count: 3 } }))).toEqual([
          'series.lastObservedTime',
        ])
        const changed = {
          ...read,
          series,
          note: 'other',
          type: 'Warning',
          eventTime: '2026-01-31T10:00:00.6Z',
        }
        expect(fieldsRefused(await put(changed))).toEqual(['message', 'type', 'eventTime'])
        objectOf(await api.mergePatch(at('events', 'six'), { message: 'other' }))
      })
    })

    it('is shown as kubectl shows events, without its name first', async () => {
      await create('events', 'four', counted)
      expect(await table(at('events', 'four'))).toMatchObject([
        {
          ...{ Type: 'Normal', Reason: 'Seen', Object: 'configmap/about', Source: 'watcher, here' },
          ...{ Message: 'twice', Count: 2, Name: 'four' },
        },
      ])
      const [row = {}] = await table(`${grouped}/four`)
      expect(Object.keys(row)[0]).toBe('Last Seen')
      expect(row).toMatchObject({ Object: 'configmap/about', Message: 'twice' })
    })
  })

  it('Namespace has its name as a label, which stays', async () => {
    const label = { 'kubernetes.io/metadata.name': 'a' }
    expect(objectOf(await api.get('/api/v1/namespaces/a')).metadata.labels).toEqual(label)
    const changed = await api.mergePatch('/api/v1/namespaces/a', { metadata: { labels: null } })
    expect(objectOf(changed).metadata.labels).toEqual(label)
    const { names } = listOf(
      await api.get('/api/v1/namespaces?labelSelector=kubernetes.io/metadata.name%3Da'),
    )
    expect(names).toEqual(['a'])
  })

  it('Namespace is selected by its phase', async () => {
    const { names } = listOf(await api.get('/api/v1/namespaces?fieldSelector=status.phase%3DActive'))
    expect(names).toContain('a')
  })
})
