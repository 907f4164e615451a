import { readFile } from 'node:fs/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type AuditAttributes, auditLevels, auditStages, metadataPolicy } from './policy.ts'
import { AuditPolicyError, readPolicy } from './policy-file.ts'

const head = 'apiVersion: audit.k8s.io/v1\nkind: Policy\n'

function read(rules: unknown, more: object = {}) {
  return readPolicy(JSON.stringify({ apiVersion: 'audit.k8s.io/v1', kind: 'Policy', rules, ...more }))
}

const ann = { name: 'ann', groups: ['dev', 'system:authenticated'] }

function objects(path: string, namespace?: string): AuditAttributes['target'] {
  const [group = '', plural = '', name, subresource] = path.split('/')
  return { group, plural, name, subresource, namespace }
}

function get(target: AuditAttributes['target'], more: Partial<AuditAttributes> = {}): AuditAttributes {
  return { user: ann, verb: 'get', target, ...more }
}

describe('a rule', () => {
  it.each<[object, AuditAttributes, boolean]>([
    [{}, get('/version'), true],
    [{}, get(objects('apps/pods/a')), true],
    [{ users: ['ann'] }, get('/version'), true],
    [{ users: ['bob', 'ann'] }, get('/version'), true],
    [{ users: ['bob'] }, get('/version'), false],
    [{ users: ['ann'] }, get('/version', { user: undefined }), false],
    [{ userGroups: ['ops', 'dev'] }, get('/version'), true],
    [{ userGroups: ['ops'] }, get('/version'), false],
    [{ userGroups: ['dev'] }, get('/version', { user: undefined }), false],
    [{ users: ['ann'], userGroups: ['ops'] }, get('/version'), false],
    [{ verbs: ['list', 'get'] }, get('/version'), true],
    [{ verbs: ['list'] }, get('/version'), false],
    [{ verbs: ['*'] }, get('/version'), false],
    [{ nonResourceURLs: ['/version'] }, get('/version'), true],
    [{ nonResourceURLs: ['/version'] }, get('/versions'), false],
    [{ nonResourceURLs: ['/healthz*'] }, get('/healthz'), true],
    [{ nonResourceURLs: ['/healthz*'] }, get('/healthz/ping'), true],
    [{ nonResourceURLs: ['/healthz/*'] }, get('/healthz'), false],
    [{ nonResourceURLs: ['*'] }, get('/anything'), true],
    [{ nonResourceURLs: ['*'] }, get(objects('apps/pods')), false],
    [{ resources: [{ group: 'apps' }] }, get(objects('apps/pods/a')), true],
    [{ resources: [{ group: 'apps' }] }, get(objects('apps/pods/a/status')), true],
    [{ resources: [{ group: 'apps' }] }, get(objects('batch/pods/a')), false],
    [{ resources: [{ group: 'apps' }] }, get('/apis/apps'), false],
    [{ resources: [{}] }, get(objects('/secrets/a')), true],
    [{ resources: [{ group: '' }] }, get(objects('apps/pods')), false],
    [{ resources: [{ group: '*' }] }, get(objects('apps/pods')), false],
    [{ resources: [{ group: 'apps', resources: ['pods'] }] }, get(objects('apps/pods/a')), true],
    [{ resources: [{ group: 'apps', resources: ['pods'] }] }, get(objects('apps/pods/a/status')), false],
    [
      { resources: [{ group: 'apps', resources: ['pods/status'] }] },
      get(objects('apps/pods/a/status')),
      true,
    ],
    [{ resources: [{ group: 'apps', resources: ['pods/status'] }] }, get(objects('apps/pods/a')), false],
    [{ resources: [{ group: 'apps', resources: ['pods/*'] }] }, get(objects('apps/pods/a/status')), true],
    [{ resources: [{ group: 'apps', resources: ['pods/*'] }] }, get(objects('apps/pods/a')), true],
    [{ resources: [{ group: 'apps', resources: ['pods/*'] }] }, get(objects('apps/jobs/a')), false],
    [{ resources: [{ group: 'apps', resources: ['*/status'] }] }, get(objects('apps/jobs/a/status')), true],
    [{ resources: [{ group: 'apps', resources: ['*/status'] }] }, get(objects('apps/jobs/a')), false],
    [{ resources: [{ group: 'apps', resources: ['*'] }] }, get(objects('apps/jobs/a/status')), true],
    [
      { resources: [{ group: 'apps', resources: ['pods'], resourceNames: ['b', 'a'] }] },
      get(objects('apps/pods/a')),
      true,
    ],
    [
      { resources: [{ group: 'apps', resources: ['pods'], resourceNames: ['a'] }] },
      get(objects('apps/pods/b')),
      false,
    ],
    [
      { resources: [{ group: 'apps', resources: ['pods'], resourceNames: ['a'] }] },
      get(objects('apps/pods')),
      false,
    ],
    [
      { resources: [{ group: 'batch' }, { group: 'apps', resources: ['jobs'] }] },
      get(objects('apps/jobs/a')),
      true,
    ],
    [{ namespaces: ['x', 'y'] }, get(objects('apps/pods/a', 'y')), true],
    [{ namespaces: ['x'] }, get(objects('apps/pods/a', 'y')), false],
    [{ namespaces: ['x'] }, get(objects('apps/pods')), false],
    [{ namespaces: [''] }, get(objects('apps/pods')), true],
    [{ namespaces: [''] }, get('/version'), false],
    [{ namespaces: ['x'], resources: [{ group: 'apps' }] }, get(objects('apps/pods/a', 'x')), true],
    [{ namespaces: ['x'], resources: [{ group: 'batch' }] }, get(objects('apps/pods/a', 'x')), false],
  ])('%j matches %j: %j', (rule, attributes, isMatched) => {
    const { level } = read([{ level: 'Request', ...rule }]).decide(attributes)
    expect(level).toBe(isMatched ? 'Request' : 'None')
  })
})

describe('a policy', () => {
  it('decides by its first rule that matches, and records nothing that none matches', () => {
    const policy = read([
      { level: 'None', verbs: ['get'] },
      { level: 'Request', users: ['ann'] },
      { level: 'Metadata', verbs: ['get', 'list'] },
    ])
    expect(policy.decide(get('/version')).level).toBe('None')
    expect(policy.decide(get('/version', { verb: 'list' })).level).toBe('Request')
    expect(policy.decide(get('/version', { verb: 'list', user: undefined })).level).toBe('Metadata')
    expect(policy.decide(get('/version', { verb: 'post', user: undefined })).level).toBe('None')
  })

  it('omits the stages of the rule and of the policy', () => {
    const rules = [
      { level: 'Metadata', users: ['ann'], omitStages: ['ResponseStarted'] },
      { level: 'Metadata', omitManagedFields: false },
    ]
    const policy = read(rules, { omitStages: ['RequestReceived'], omitManagedFields: true })
    const first = policy.decide(get('/version'))
    expect([...first.omitStages]).toEqual(['RequestReceived', 'ResponseStarted'])
    expect(first.omitManagedFields).toBe(true)
    const second = policy.decide(get('/version', { user: undefined }))
    expect([...second.omitStages]).toEqual(['RequestReceived'])
    expect(second.omitManagedFields).toBe(false)
  })

  it('without a file records the metadata of everything once', () => {
    const { level, omitStages } = metadataPolicy.decide(get('/livez', { user: undefined }))
    expect([level, ...omitStages]).toEqual(['Metadata', 'RequestReceived'])
  })
})

describe('a policy file', () => {
  it.each([
    ['', 'is not valid YAML'],
    ['7', 'the policy must be a mapping'],
    ['[]', 'the policy must be a mapping'],
    ['a: [', 'is not valid YAML'],
    ['a: 1\na: 2', 'is not valid YAML: see line 2'],
    ['kind: Policy\nrules: [{level: None}]', 'apiVersion must be audit.k8s.io/v1'],
    [
      'apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]',
      'apiVersion must be audit.k8s.io/v1',
    ],
    ['apiVersion: audit.k8s.io/v1\nkind: PolicyList\nrules: [{level: None}]', 'kind must be Policy'],
    [head, 'rules must be a list of at least one rule'],
    [`${head}rules: []`, 'rules must be a list of at least one rule'],
    [`${head}rules: {}`, 'rules must be a list of at least one rule'],
    [`${head}rule: []`, 'unknown key rule in the policy, did you mean rules?'],
    [`${head}rules: [{level: None}]\nomitStages: [Received]`, 'omitStages[0] must be one of RequestReceived'],
    [`${head}rules: [{level: None}]\nomitManagedFields: yes`, 'omitManagedFields must be true or false'],
    [`${head}rules: [none]`, 'rules[0] must be a mapping with level'],
    [`${head}rules: [{}]`, 'rules[0].level must be one of None, Metadata, Request, RequestResponse'],
    [`${head}rules: [{level: None}, {level: metadata}]`, 'rules[1].level must be one of'],
    [`${head}rules: [{levl: None}]`, 'unknown key levl in rules[0], did you mean level?'],
    [`${head}rules: [{level: None, users: ann}]`, 'rules[0].users must be a list'],
    [`${head}rules: [{level: None, users: [1]}]`, 'rules[0].users[0] must be a string'],
    [`${head}rules: [{level: None, resources: [pods]}]`, 'rules[0].resources[0] must be a mapping'],
    [
      `${head}rules: [{level: None, resources: [{groups: a}]}]`,
      'unknown key groups in rules[0].resources[0], did you mean group?',
    ],
    [
      `${head}rules: [{level: None, resources: [{group: 1}]}]`,
      'rules[0].resources[0].group must be a string',
    ],
    [
      `${head}rules: [{level: None, resources: [{group: apps/v1}]}]`,
      'rules[0].resources[0].group must be a group without a version, is "apps/v1"',
    ],
    [
      `${head}rules: [{level: None, resources: [{resourceNames: [a]}]}]`,
      'rules[0].resources[0].resourceNames needs resources',
    ],
    [
      `${head}rules: [{level: None, nonResourceURLs: ["*"], namespaces: [a]}]`,
      'rules[0] has nonResourceURLs and also resources or namespaces',
    ],
    [
      `${head}rules: [{level: None, nonResourceURLs: ["*"], resources: [{}]}]`,
      'rules[0] has nonResourceURLs and also resources or namespaces',
    ],
    [
      `${head}rules: [{level: None, nonResourceURLs: [healthz]}]`,
      'rules[0].nonResourceURLs[0] must be * or begin',
    ],
    [
      `${head}rules: [{level: None, nonResourceURLs: ["/*/a"]}]`,
      'rules[0].nonResourceURLs[0] must be * or begin',
    ],
    [`${head}rules: [{level: None, omitStages: [Request]}]`, 'rules[0].omitStages[0] must be one of'],
  ])('%j is refused: %s', (text, message) => {
    expect(() => readPolicy(text)).toThrow(AuditPolicyError)
    expect(() => readPolicy(text)).toThrow(message)
  })

  it('may have a name, and lists without a value', () => {
    expect(() =>
      readPolicy(`${head}metadata: {name: a}\nomitStages:\nrules: [{level: None, users: }]`),
    ).not.toThrow()
  })

  it('is read or refused, whatever is in it', () => {
    const key = fc.constantFrom(
      ...[
        'apiVersion',
        'kind',
        'rules',
        'level',
        'users',
        'resources',
        'group',
        'nonResourceURLs',
        'omitStages',
      ],
    )
    const leaf = fc.oneof(
      fc.constantFrom<unknown>(
        'audit.k8s.io/v1',
        'Policy',
        'None',
        '*',
        '/a*',
        'RequestReceived',
        '',
        null,
        7,
      ),
      fc.jsonValue(),
    )
    const { tree } = fc.letrec<{ tree: unknown }>(tie => ({
      tree: fc.oneof(
        { maxDepth: 5 },
        leaf,
        fc.array(tie('tree'), { maxLength: 3 }),
        fc.dictionary(key, tie('tree'), { maxKeys: 5 }),
      ),
    }))
    const begun = fc.record(
      { rules: fc.array(tree, { maxLength: 3 }), omitStages: tree },
      { requiredKeys: [] },
    )
    const document = fc.oneof(
      tree,
      begun.map(more => ({ apiVersion: 'audit.k8s.io/v1', kind: 'Policy', ...more })),
    )
    fc.assert(
      fc.property(
        fc.oneof(
          document.map(value => JSON.stringify(value) ?? ''),
          fc.string(),
        ),
        text => {
          try {
            readPolicy(text).decide(get('/version'))
          } catch (error) {
            if (!(error instanceof AuditPolicyError)) throw error
          }
        },
      ),
      { numRuns: 500 },
    )
  })
})

it('the policy of the documentation decides as its comments say', async () => {
  const page = await readFile(new URL('../../../docs/operations/audit.md', import.meta.url), 'utf8')
  const policy = readPolicy(/^```yaml\n([\s\S]*?)^```$/m.exec(page)?.[1] ?? '')
  const decided = (verb: string, target: AuditAttributes['target']) =>
    policy.decide(get(target, { verb })).level
  expect(decided('get', '/readyz')).toBe('None')
  expect(decided('get', '/version')).toBe('Metadata')
  expect(decided('update', objects('coordination.k8s.io/leases/a', 'setpoint-system'))).toBe('None')
  expect(decided('delete', objects('coordination.k8s.io/leases/a', 'setpoint-system'))).toBe('Request')
  expect(decided('create', objects('rbac.authorization.k8s.io/roles', 'x'))).toBe('RequestResponse')
  expect(decided('list', objects('rbac.authorization.k8s.io/roles', 'x'))).toBe('Metadata')
  expect(decided('patch', objects('uptime.example.com/probes/a/status'))).toBe('Metadata')
  expect(decided('patch', objects('uptime.example.com/probes/a'))).toBe('Request')
  expect(decided('get', objects('uptime.example.com/probes/a'))).toBe('Metadata')
})

/** Decides as the reference of Kubernetes words it, one rule at a time. */
function naiveLevel(
  rules: readonly Record<string, string[] | string>[],
  attributes: AuditAttributes,
): string {
  const { user, verb, target } = attributes
  const isIn = (list: unknown, value: string | undefined) =>
    !Array.isArray(list) || list.length === 0 || (value !== undefined && list.includes(value))
  for (const { level, users, userGroups, verbs, namespaces, urls, plurals } of rules) {
    if (!isIn(users, user?.name) || !isIn(verbs, verb)) continue
    if (userGroups?.length && ![...(user?.groups ?? [])].some(group => userGroups.includes(group))) continue
    if (typeof target === 'string') {
      if (namespaces?.length || plurals?.length) continue
      if (!isIn(urls, target)) continue
    } else {
      if (urls?.length || !isIn(namespaces, target.namespace ?? '') || !isIn(plurals, target.plural)) continue
    }
    return String(level)
  }
  return 'None'
}

it('random policies decide as a naive evaluator does', () => {
  const some = (...values: string[]) => fc.subarray(values, { maxLength: 2 })
  const rule = fc.record({
    level: fc.constantFrom(...auditLevels),
    users: some('ann', 'bob'),
    userGroups: some('dev', 'ops'),
    verbs: some('get', 'list', 'watch'),
    omitStages: some(...auditStages),
  })
  const ofObjects = fc.record({ namespaces: some('', 'x', 'y'), plurals: some('pods', 'jobs') })
  const ofPaths = fc.record({ urls: some('/version', '/livez') })
  const rules = fc.array(
    fc.tuple(rule, fc.oneof(ofObjects, ofPaths)).map(([one, other]) => ({ ...one, ...other })),
    { minLength: 1, maxLength: 6 },
  )
  const target = fc.oneof(
    fc.constantFrom('/version', '/livez'),
    fc
      .tuple(fc.constantFrom('pods', 'jobs'), fc.constantFrom(undefined, 'x', 'y'))
      .map(([plural, namespace]) => objects(`apps/${plural}/a`, namespace)),
  )
  const user = fc.option(fc.record({ name: fc.constantFrom('ann', 'bob'), groups: some('dev', 'ops') }), {
    nil: undefined,
  })
  const attributes = fc.record({ user, verb: fc.constantFrom('get', 'list', 'watch'), target })
  fc.assert(
    fc.property(rules, attributes, (drawn, request) => {
      const policy = read(
        drawn.map(each => {
          const {
            plurals = [],
            urls,
            ...others
          }: typeof each & { plurals?: string[]; urls?: string[] } = each
          const resources = plurals.map(plural => ({ group: 'apps', resources: [plural] }))
          return { ...others, resources, nonResourceURLs: urls }
        }),
      )
      expect(policy.decide(request).level).toBe(naiveLevel(drawn, request))
    }),
    { numRuns: 500 },
  )
})
