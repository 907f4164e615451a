import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { countReads } from '../../../../test/support/rooms.ts'
import type { ResourceTarget, Target } from '../authorize.ts'
import type { PolicyRule } from '../policy-rule.ts'
import type { Binding, RbacKey } from './binding.ts'
import { everyCombination } from './combinations.ts'
import { RbacAuthorizer, rbacDefaults } from './rbac-authorizer.ts'
import { RbacPolicy, type Role } from './rbac-policy.ts'

const namespaces = ['x', 'y'] as const
const userNames = ['ann', 'bob'] as const
const groupNames = ['g', 'h'] as const
const roleNames = ['a', 'b', 'c'] as const
const subset = (values: readonly string[], minLength = 1) => fc.subarray([...values], { minLength })

const rule: fc.Arbitrary<PolicyRule> = fc.oneof(
  fc.record({
    verbs: subset(['get', 'list', 'create', '*']),
    apiGroups: subset(['', 'e.com', '*']),
    resources: subset(['pods', 'pods/log', '*/log', '*', 'jobs']),
    resourceNames: fc.oneof(fc.constant([]), subset(['n', 'm'])),
  }),
  fc.record({ verbs: subset(['get', '*']), nonResourceURLs: subset(['/a', '/a/*', '*', '/b']) }),
)
const labels = fc.oneof(fc.constant({}), fc.constant({ to: 'view' }), fc.constant({ to: 'edit' }))
const role: fc.Arbitrary<Role> = fc.record(
  {
    rules: fc.array(rule, { maxLength: 3 }),
    labels,
    aggregates: fc.subarray([{ matchLabels: { to: 'view' } }, { matchLabels: { to: 'edit' } }], {
      minLength: 1,
    }),
  },
  { requiredKeys: ['rules', 'labels'] },
)
const namespace = fc.option(fc.constantFrom(...namespaces), { nil: undefined })
const key: fc.Arbitrary<RbacKey> = fc.record({ namespace, name: fc.constantFrom(...roleNames) })
const binding: fc.Arbitrary<Binding> = fc.record({
  role: fc.record({
    kind: fc.constantFrom('Role' as const, 'ClusterRole' as const),
    name: fc.constantFrom(...roleNames),
  }),
  subjects: fc.uniqueArray(
    fc.oneof(
      fc.record({ kind: fc.constant('User' as const), name: fc.constantFrom(...userNames) }),
      fc.record({ kind: fc.constant('Group' as const), name: fc.constantFrom(...groupNames) }),
    ),
    { maxLength: 3, selector: ({ kind, name }) => `${kind}/${name}` },
  ),
})
type Change = { readonly key: RbacKey } & (
  | { readonly role: Role | undefined }
  | { readonly binding: Binding | undefined }
)
const change: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ key, role: fc.option(role, { nil: undefined }) }),
  fc.record({ key, binding: fc.option(binding, { nil: undefined }) }),
)
const target: fc.Arbitrary<Target> = fc.oneof(
  fc.constantFrom('/a', '/a/b', '/b', '/c'),
  fc.record({
    group: fc.constantFrom('', 'e.com', 'f.com'),
    plural: fc.constantFrom('pods', 'jobs', 'others'),
    namespace,
    name: fc.option(fc.constantFrom('n', 'm', 'o'), { nil: undefined }),
    subresource: fc.option(fc.constantFrom('log', 'exec'), { nil: undefined }),
  }),
)
const user = fc.record({ name: fc.constantFrom(...userNames, 'eve'), groups: subset(groupNames, 0) })
const request = fc.record({ user, verb: fc.constantFrom('get', 'list', 'create', 'watch'), target })

/** Decides by going through everything, as Kubernetes' documentation describes it. */
class Naive {
  readonly roles = new Map<string, Role>()
  readonly bindings = new Map<string, { readonly key: RbacKey; readonly binding: Binding }>()

  apply(each: Change): void {
    const id = `${each.key.namespace ?? ''}/${each.key.name}`
    if ('role' in each) {
      if (each.role === undefined) this.roles.delete(id)
      else this.roles.set(id, each.role)
    } else if (each.binding === undefined) this.bindings.delete(id)
    else this.bindings.set(id, { key: each.key, binding: each.binding })
  }

  /** Returns every reason to allow a request, as Kubernetes words them. */
  reasons({ name, groups }: { name: string; groups: readonly string[] }, verb: string, to: Target): string[] {
    return [...this.bindings.values()].flatMap(
      ({ key: { namespace: place, name: binding }, binding: each }) => {
        if (place !== undefined && (typeof to === 'string' || to.namespace !== place)) return []
        const rules =
          each.role.kind === 'ClusterRole'
            ? this.#clusterRules(each.role.name)
            : place === undefined
              ? []
              : (this.roles.get(`${place}/${each.role.name}`)?.rules ?? [])
        if (!rules.some(one => matches(one, verb, to))) return []
        const title =
          place === undefined ? `ClusterRoleBinding "${binding}"` : `RoleBinding "${binding}/${place}"`
        return each.subjects
          .filter(subject =>
            subject.kind === 'User' ? subject.name === name : groups.includes(subject.name),
          )
          .map(
            subject =>
              `RBAC: allowed by ${title} of ${each.role.kind} "${each.role.name}" to ${subject.kind} "${subject.name}"`,
          )
      },
    )
  }

  #clusterRules(name: string, seen: readonly string[] = []): readonly PolicyRule[] {
    const found = this.roles.get(`/${name}`)
    if (found === undefined || seen.includes(name)) return []
    const { aggregates } = found
    if (aggregates === undefined) return found.rules
    return [...this.roles].flatMap(([id, { labels: given }]) => {
      const selected = aggregates.some(({ matchLabels }) => given.to === matchLabels?.to)
      return id.startsWith('/') && selected ? this.#clusterRules(id.slice(1), [...seen, name]) : []
    })
  }
}

function matches(one: PolicyRule, verb: string, to: Target): boolean {
  const has = (list: readonly string[] = [], value: string) => list.includes('*') || list.includes(value)
  if (!has(one.verbs, verb)) return false
  if (typeof to === 'string')
    return (one.nonResourceURLs ?? []).some(
      path => path === '*' || path === to || (path.endsWith('*') && to.startsWith(path.slice(0, -1))),
    )
  const { resourceNames = [] } = one
  return (
    has(one.apiGroups, to.group) &&
    (one.resources ?? []).some(resource => matchesResource(resource, to)) &&
    (resourceNames.length === 0 || (to.name !== undefined && resourceNames.includes(to.name)))
  )
}

function matchesResource(resource: string, { plural, subresource }: ResourceTarget): boolean {
  if (resource === '*') return true
  if (subresource === undefined) return resource === plural
  return resource === `${plural}/${subresource}` || resource === `*/${subresource}`
}

describe('a policy', () => {
  it('decides as a walk through all bindings and rules does, after any changes, and names a binding that allows', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof({ weight: 3, arbitrary: change }, { weight: 1, arbitrary: request }), {
          minLength: 20,
          maxLength: 60,
        }),
        fc.array(request, { minLength: 20, maxLength: 20 }),
        (steps, requests) => {
          const policy = new RbacPolicy()
          const naive = new Naive()
          const compare = ({ user: who, verb, target: to }: (typeof requests)[number]) => {
            const reasons = naive.reasons(who, verb, to)
            expect(reasons.length === 0 ? [undefined] : reasons).toContain(
              policy.grantOf(who, verb, to)?.reason,
            )
            const place = typeof to === 'string' ? 'x' : to.namespace
            expect(policy.checkOf(who, place)(verb, to)).toBe(reasons.length > 0)
          }
          for (const step of steps) {
            if ('verb' in step) compare(step)
            else {
              naive.apply(step)
              if ('role' in step) policy.setRole(step.key, step.role)
              else policy.setBinding(step.key, step.binding)
            }
          }
          for (const each of requests) compare(each)
        },
      ),
      { numRuns: 300 },
    )
  })

  it('reads the rules of a role once, until that role changes', () => {
    const policy = new RbacPolicy()
    const get: PolicyRule = { verbs: ['get'], apiGroups: ['e.com'], resources: ['jobs'] }
    const list: PolicyRule = { ...get, verbs: ['list'] }
    const { list: rules, reads } = countReads([get])
    const subjects = [{ kind: 'Group', name: 'g' } as const]
    const role = { kind: 'Role', name: 'held' } as const
    policy.setRole({ namespace: 'x', name: 'held' }, { rules, labels: {} })
    policy.setBinding({ namespace: 'x', name: 'held' }, { role, subjects })
    const target = { group: 'e.com', plural: 'jobs', namespace: 'x', name: undefined, subresource: undefined }
    const may = (verb: string) => policy.grantOf({ name: 'ann', groups: ['g'] }, verb, target) !== undefined
    expect([may('get'), may('list')]).toEqual([true, false])
    const once = reads()
    for (const namespace of ['x', 'y', undefined]) {
      policy.setRole({ namespace, name: 'other' }, { rules: [list], labels: {} })
      expect(may('list')).toBe(false)
    }
    const other = { kind: 'Role', name: 'other' } as const
    policy.setBinding({ namespace: 'x', name: 'other' }, { role: other, subjects })
    expect([may('get'), may('list')]).toEqual([true, true])
    expect(reads()).toBe(once)
    policy.setRole({ namespace: 'x', name: 'held' }, { rules: [list], labels: {} })
    expect([may('get'), may('list')]).toEqual([false, true])
  })

  it('allows a rule to be granted only if every request that it allows is allowed', () => {
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 4 }), rule, request, (held, granted, { verb, target: to }) => {
        const policy = new RbacPolicy()
        policy.setRole({ namespace: undefined, name: 'held' }, { rules: held, labels: {} })
        const of = { kind: 'ClusterRole', name: 'held' } as const
        const subjects = [{ kind: 'User', name: 'ann' } as const]
        policy.setBinding({ namespace: undefined, name: 'held' }, { role: of, subjects })
        const ann = { name: 'ann', groups: [] }
        const allows = (each: string, place: Target) => policy.grantOf(ann, each, place) !== undefined
        fc.pre(everyCombination(granted, undefined, allows) && matches(granted, verb, to))
        expect(allows(verb, to)).toBe(true)
      }),
      { numRuns: 200 },
    )
  })
})

describe('an authorizer', () => {
  it('says what allows a request, as Kubernetes words it', () => {
    const authorizer = new RbacAuthorizer({ isSensitive: () => false })
    const account = 'system:serviceaccount:x:robot'
    const role = { kind: 'ClusterRole', name: 'reader' } as const
    const rules = [{ verbs: ['get'], apiGroups: ['e.com'], resources: ['things'], resourceNames: ['a'] }]
    authorizer.update(policy => {
      policy.setRole({ namespace: undefined, name: 'reader' }, { rules, labels: {} })
      policy.setBinding(
        { namespace: 'x', name: 'readers' },
        { role, subjects: [account, 'ann'].map(name => ({ kind: 'User', name })) },
      )
    })
    const reasonFor = (name: string, ...groups: string[]) =>
      authorizer.grantOf({ name, groups }, 'get', {
        ...{ group: 'e.com', plural: 'things', namespace: 'x', name: 'a', subresource: undefined },
      })?.reason
    const because = 'RBAC: allowed by RoleBinding "readers/x" of ClusterRole "reader" to'
    expect(reasonFor('ann')).toBe(`${because} User "ann"`)
    expect(reasonFor(account)).toBe(`${because} ServiceAccount "robot/x"`)
    expect(reasonFor('eve')).toBeUndefined()
    expect(reasonFor('eve', 'setpoint:viewers')).toBe('allowed by the built-in group "setpoint:viewers"')
    expect(reasonFor('eve', 'setpoint:admins')).toBe('allowed by the built-in group "setpoint:admins"')
  })

  const things = (name?: string): Target => ({
    ...{ group: 'e.com', plural: 'things', namespace: undefined, subresource: undefined, name },
  })

  it('responds with 503 to all but administrators until it knows the roles', () => {
    const authorizer = new RbacAuthorizer({ isSensitive: () => false })
    const admin = { name: 'a', groups: ['setpoint:admins'] }
    const viewer = { name: 'v', groups: ['setpoint:viewers'] }
    expect(authorizer.allows(admin, 'delete', things('a'))).toBe(true)
    expect(() => authorizer.authorize(viewer, 'get', things('a'))).toThrow(
      expect.objectContaining({ code: 503 }),
    )
    authorizer.update(() => {})
    expect(authorizer.allows(viewer, 'get', things('a'))).toBe(true)
    expect(authorizer.allows(viewer, 'delete', things('a'))).toBe(false)
  })

  it('lists a megabyte of rules at most, and says that there are more', () => {
    const authorizer = new RbacAuthorizer({ isSensitive: () => false })
    const rule = { verbs: ['get'], apiGroups: [''], resources: ['a'], resourceNames: ['n'.repeat(300_000)] }
    const role = { kind: 'ClusterRole', name: 'r' } as const
    const rules = Array.from({ length: 10 }, () => ({ ...rule }))
    const ann = { name: 'ann', groups: [] }
    const listed = (held: readonly PolicyRule[]) => {
      authorizer.update(policy => {
        policy.setRole({ namespace: undefined, name: 'r' }, { rules: held, labels: {} })
        policy.setBinding(
          { namespace: undefined, name: 'r' },
          { role, subjects: [{ kind: 'User', name: 'ann' }] },
        )
      })
      return authorizer.rulesOf(ann, 'x')
    }
    expect(listed([rule])).toEqual({ rules: [rule] })
    const some = listed(rules)
    expect(some.problem).toBe('there are more rules than a review lists')
    expect(JSON.stringify(some.rules).length).toBeLessThan(rbacDefaults.listedCharacters)
    expect(some.rules).toHaveLength(3)
  })

  it('grants nothing to system:masters', () => {
    const authorizer = new RbacAuthorizer({ isSensitive: () => false })
    authorizer.update(() => {})
    expect(authorizer.allows({ name: 'm', groups: ['system:masters'] }, 'get', things())).toBe(false)
  })
})
