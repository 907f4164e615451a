import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Answer, type Api, objectOf, refusalOf } from './support/api.ts'
import {
  applied,
  conditionIn,
  define,
  definitionOf,
  definitionsPath,
  nameOf,
  objectsOf,
  pathOf,
  readDefinition,
} from './support/definitions.ts'
import { arrayOf, type Fields, fieldsOf } from './support/json.ts'
import { mutatedDefinitions } from './support/mutated-definitions.ts'
import { runsOf } from './support/runs.ts'
import { eventually, type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

describe.each(stores)('on %s, a malformed definition', store => {
  let world: SharedWorld
  let api: Api

  beforeAll(async () => {
    world = await startSharedWorld(store, [])
    api = world.api
  })
  afterAll(() => world?.end())
  afterEach(async () => {
    const { items } = fieldsOf((await api.get(definitionsPath)).body)
    for (const item of arrayOf(items)) await api.delete(pathOf(fieldsOf(item)))
    await eventually(async () => expect(fieldsOf((await api.get(definitionsPath)).body).items).toEqual([]))
  })

  const color = (schema: Fields): Fields =>
    definitionOf({
      plural: 'brushes',
      kind: 'Brush',
      versions: { v1: { spec: { type: 'object', properties: { color: schema } } } },
    })
  const valid = color({ type: 'string', maxLength: 9 })
  const invalid = color({ type: 'string', maxLength: 9, uniqueItems: true })
  const cause = {
    reason: 'FieldValueForbidden',
    field: 'spec.validation.openAPIV3Schema.properties[spec].properties[color].uniqueItems',
  }
  const place = '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color/uniqueItems'

  const expectRefused = (answer: Answer) => {
    const { reason, details, causes } = refusalOf(answer, 422)
    expect(reason).toBe('Invalid')
    expect(details).toMatchObject({
      name: nameOf(valid),
      group: 'apiextensions.k8s.io',
      kind: 'CustomResourceDefinition',
    })
    expect(causes).toMatchObject([cause])
  }

  it('is refused with its causes, and neither stored nor served', async () => {
    for (const query of ['', '?dryRun=All']) {
      expectRefused(await api.post(`${definitionsPath}${query}`, invalid))
      expectRefused(
        await api.request('PATCH', `${pathOf(valid)}?fieldManager=test`, JSON.stringify(invalid), {
          type: 'application/apply-patch+yaml',
        }),
      )
    }
    refusalOf(await api.get(pathOf(invalid)), 404)
    expect((await api.get(objectsOf(api, invalid).path)).status).toBe(404)
  })

  it('does not come of a change either, by whatever request', async () => {
    await define(api, valid)
    const { resourceVersion } = await eventually(async () => {
      const found = await readDefinition(api, valid)
      expect(conditionIn(found, 'Established')).toMatch(/^True/)
      return found.metadata
    })
    const put = { ...invalid, metadata: { ...fieldsOf(invalid.metadata), resourceVersion } }
    const { spec } = invalid
    expectRefused(await api.put(pathOf(valid), put))
    expectRefused(await api.mergePatch(pathOf(valid), { spec }))
    expectRefused(
      await api.request('PATCH', pathOf(valid), { spec }, { type: 'application/strategic-merge-patch+json' }),
    )
    expectRefused(await api.jsonPatch(pathOf(valid), [{ op: 'add', path: place, value: true }]))
    expectRefused(await applied(api, invalid))
    expect((await readDefinition(api, valid)).metadata).toMatchObject({ generation: 1, resourceVersion })
  })

  it('has all its causes at once, in its names, versions and schemas', async () => {
    const definition = definitionOf({ plural: 'brushes', names: { shortNames: ['Br'] } })
    const spec = fieldsOf(definition.spec)
    const versions = arrayOf(spec.versions).map(version => ({ ...fieldsOf(version), storage: false }))
    const answer = await api.post(definitionsPath, {
      ...definition,
      spec: { ...spec, scope: 'World', versions },
    })
    expect(refusalOf(answer, 422).causes.map(({ reason, field }) => `${reason} ${field}`)).toEqual(
      expect.arrayContaining([
        'FieldValueNotSupported spec.scope',
        'FieldValueInvalid spec.names.shortNames[0]',
        'FieldValueInvalid spec.versions',
      ]),
    )
  })

  it('that was stored keeps a version that its objects may be stored in', async () => {
    await define(api, definitionOf({ plural: 'brushes', kind: 'Brush', versions: { v1: {}, v2: {} } }))
    const path = pathOf(valid)
    objectOf(
      await api.mergePatch(path, {
        spec: { versions: specVersions({ v1: { storage: false }, v2: { storage: true } }) },
      }),
    )
    const only = { spec: { versions: specVersions({ v2: { storage: true } }) } }
    expect(refusalOf(await api.mergePatch(path, only), 422).causes).toMatchObject([
      { reason: 'FieldValueInvalid', field: 'status.storedVersions[0]' },
    ])
    objectOf(await api.mergePatch(`${path}/status`, { status: { storedVersions: ['v2'] } }))
    expect(objectOf(await api.mergePatch(path, only)).status).toMatchObject({ storedVersions: ['v2'] })
  })

  it('is told of unknown fields and of formats that are not checked', async () => {
    const definition = color({ type: 'string', format: 'colour', maximal: 9 })
    const answer = await api.post(definitionsPath, definition)
    expect(answer.headers.get('warning')).toContain('unrecognized format \\"colour\\"')
    expect(answer.headers.get('warning')).toContain(
      'unknown field \\"spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.color.maximal\\"',
    )
    expect(JSON.stringify(objectOf(answer, 201).spec)).not.toContain('maximal')
    refusalOf(await api.put(`${pathOf(definition)}?fieldValidation=Strict`, definition), 400)
  })

  it('does no harm, whatever is in it: no request about it and its objects has a response of 500', async () => {
    const isHarmless = (answer: Answer, what: unknown) => {
      if (answer.status >= 500) throw new Error(`${answer.text} for ${JSON.stringify(what)}`)
      return answer.status < 300
    }
    let accepted = 0
    await fc.assert(
      fc.asyncProperty(mutatedDefinitions, mutatedDefinitions, async (definition, other) => {
        if (!isHarmless(await api.post(definitionsPath, definition), definition)) return
        accepted++
        const [path, { path: objects, apiVersion, kind }] = [pathOf(definition), objectsOf(api, definition)]
        const inNamespace = objects.replace(/\/([^/]+)$/, '/namespaces/default/$1')
        const spec = { size: 3, color: 'red', hosts: [{ name: 'a' }], pod: { kind: 'Pod', apiVersion: 'v1' } }
        for (const sent of [
          { spec },
          { spec: {} },
          { spec: { size: 'a', color: 1, hosts: {}, labels: [] } },
        ]) {
          const object = { apiVersion, kind, metadata: { name: 'a' }, ...sent }
          isHarmless(await api.post(inNamespace, object), { definition, object })
        }
        isHarmless(await api.mergePatch(`${inNamespace}/a`, { spec: { size: 4, hosts: null } }), definition)
        isHarmless(
          await api.get(objects, { headers: { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' } }),
          definition,
        )
        isHarmless(await api.get(`${objects}?fieldSelector=spec.color=red`), definition)
        isHarmless(await api.get('/openapi/v2'), definition)
        isHarmless(await api.mergePatch(path, { spec: other.spec }), { definition, other })
        isHarmless(await api.get(objects), { definition, other })
        await api.delete(path)
        await eventually(async () => expect((await api.get(path)).status).toBe(404))
      }),
      { numRuns: runsOf(450), endOnFailure: true },
    )
    expect(accepted).toBeGreaterThan(runsOf(2))
    expect((await api.get('/readyz')).status).toBe(200)
  })
})

function specVersions(versions: Readonly<Record<string, { storage: boolean }>>): unknown {
  return fieldsOf(definitionOf({ plural: 'brushes', versions }).spec).versions
}
