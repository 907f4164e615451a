import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RbacAuthorizer, type Role, type Subject } from '../../apiserver/dist/security/index.js'
import { collection, itemJson, lanes, rounds } from './items.ts'
import { type Program, startSetpoint } from './program.ts'
import { load, rawRequest, withToken } from './raw-http.ts'
import { ScriptProcess } from './script-process.ts'
import type { Row } from './table.ts'

const bindings = 1_000
const decisions = 200_000
const watchers = 1_000
/** Changes of one round, each delivered to all watchers. */
const changes = 200
const group = 'rbac.authorization.k8s.io'

/** The time of a decision, and the cost of roles and of the audit log for requests. */
export async function rbac(): Promise<Row[]> {
  return [...decisionRows(), ...(await requests())]
}

function decisionRows(): Row[] {
  const authorizer = new RbacAuthorizer({ isSensitive: () => false })
  authorizer.update(policy => {
    for (let n = 0; n < bindings; n++) {
      const namespace = n % 2 === 0 ? undefined : `ns${n % 50}`
      const role: Role = {
        rules: [
          {
            verbs: ['get', 'list', 'watch'],
            apiGroups: [`g${n}.example.com`],
            resources: ['items', 'things'],
          },
          { verbs: ['update'], apiGroups: [''], resources: ['configmaps'], resourceNames: [`c${n}`] },
        ],
        labels: {},
      }
      // A tenth of the bindings is for one group of the user.
      const subject: Subject =
        n % 10 === 0 ? { kind: 'Group', name: 'team' } : { kind: 'User', name: `user${n}` }
      policy.setRole({ namespace: undefined, name: `r${n}` }, role)
      policy.setBinding(
        { namespace, name: `b${n}` },
        { role: { kind: 'ClusterRole', name: `r${n}` }, subjects: [subject] },
      )
    }
  })
  const user = { name: 'user1', groups: ['team', 'others', 'system:authenticated'] }
  const map = new Map(Array.from({ length: bindings }, (_, n) => [`g${n}.example.com`, n]))
  const targets = Array.from({ length: bindings }, (_, n) => ({
    ...{ group: `g${n}.example.com`, plural: 'items', namespace: `ns${n % 50}`, name: 'a' },
    subresource: n % 3 === 0 ? 'status' : undefined,
  }))
  const ours: number[] = []
  const peer: number[] = []
  let allowed = 0
  for (let round = -1; round < rounds; round++) {
    const decided = microsOf(target => {
      if (authorizer.allows(user, 'get', target)) allowed++
    })
    const looked = microsOf(target => {
      if (map.get(target.group) === 7) allowed++
    })
    if (round < 0) continue
    ours.push(decided)
    peer.push(looked)
  }
  if (allowed === 0) throw new Error('no decision allows anything')
  const name = `a decision with ${bindings} bindings`
  return [
    { name: `${name}, compared with a look-up in a Map`, unit: 'µs', ours, peer },
    { name: `${name}, compared with the aim`, unit: 'µs', ours, peer: ours.map(() => 5), aim: { atMost: 1 } },
  ]

  function microsOf(decide: (target: (typeof targets)[number]) => void): number {
    const start = performance.now()
    for (let n = 0; n < decisions; n++) {
      const target = targets[n % targets.length]
      if (target !== undefined) decide(target)
    }
    return ((performance.now() - start) * 1000) / decisions
  }
}

/** The cost of roles and of the audit log for reads, and of roles for watches. */
async function requests(): Promise<Row[]> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'))
  try {
    const entry = (user: string, groups: string[]) => ({
      ...{ user, groups, sha256: createHash('sha256').update(user).digest('hex') },
    })
    const users = [entry('admin', ['setpoint:admins']), entry('reader', ['team', 'others'])]
    const tokens = join(folder, 'tokens')
    await writeFile(tokens, JSON.stringify(users), { mode: 0o600 })
    const withRoles = ['--token-file', tokens]
    return [
      ...(await reads(withRoles)),
      await auditedReads(['--audit-log', join(folder, 'audit.log')]),
      await deliveries(withRoles),
    ]
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/**
 * Compares GETs of a user whose role allows them with those of an administrator, and with a server without
 * authentication.
 */
async function reads(withRoles: readonly string[]): Promise<Row[]> {
  await using setpoint = await startSetpoint(withRoles)
  await using open = await startSetpoint([])
  await prepare(setpoint)
  await post(open, collection, item)
  const name = `GET by a role among ${bindings} bindings`
  const aim = { atLeast: 0.95 }
  const byRole = () => get(setpoint, `${collection}/a`, 'reader')
  return [
    {
      ...{ name: `${name}, compared with an administrator`, unit: '1/s', aim },
      ...(await compare(byRole, () => get(setpoint, `${collection}/a`, 'admin'))),
    },
    {
      ...{ name: `${name}, compared with a server without authentication`, unit: '1/s', aim },
      ...(await compare(byRole, () => get(open, `${collection}/a`))),
    },
  ]
}

async function auditedReads(withAudit: readonly string[]): Promise<Row> {
  await using setpoint = await startSetpoint(withAudit)
  await using silent = await startSetpoint([])
  for (const server of [setpoint, silent]) await post(server, collection, item)
  const name = 'GET with the audit log in a file at level Metadata, compared with the same without it'
  const path = `${collection}/a`
  return {
    ...{ name, unit: '1/s' },
    ...(await compare(
      () => get(setpoint, path),
      () => get(silent, path),
    )),
  }
}

/** Deliveries to watchers who hold a role, compared with as many administrators on a server of their own. */
async function deliveries(withRoles: readonly string[]): Promise<Row> {
  await using setpoint = await startSetpoint(withRoles)
  await using peer = await startSetpoint(withRoles)
  await using readers = new ScriptProcess('fleet.js')
  await using admins = new ScriptProcess('fleet.js')
  for (const server of [setpoint, peer]) await prepare(server)
  const path = `${collection}?version=${await latestVersion(setpoint)}&allowWatchBookmarks=false`
  await readers.ask('connect', watchers, setpoint.url.href, path, 'reader')
  const peerPath = `${collection}?version=${await latestVersion(peer)}&allowWatchBookmarks=false`
  await admins.ask('connect', watchers, peer.url.href, peerPath, 'admin')
  let n = 0
  const deliver = async ({ url }: Program, clients: ScriptProcess) => {
    const begin = performance.now()
    const received = clients.ask('receive', changes * watchers)
    const body = () => itemJson('a', n++, 'x'.repeat(650))
    await load(
      url,
      1,
      changes,
      () => withToken('admin', rawRequest('PUT', url, `${collection}/a`, body())),
      200,
    )
    await received
    return (changes * watchers) / ((performance.now() - begin) / 1000)
  }
  return {
    name: `deliveries of changes to ${watchers} WebSockets of a user with a role, compared with administrators`,
    unit: '1/s',
    aim: { atLeast: 0.95 },
    ...(await compare(
      () => deliver(setpoint, readers),
      () => deliver(peer, admins),
    )),
  }
}

/** Measures both sides in turns, after a round to warm up. */
async function compare(
  ours: () => Promise<number>,
  peer: () => Promise<number>,
): Promise<{ ours: number[]; peer: number[] }> {
  const measured: { ours: number[]; peer: number[] } = { ours: [], peer: [] }
  for (let round = -1; round < rounds; round++) {
    const [one, other] = [await ours(), await peer()]
    if (round < 0) continue
    measured.ours.push(one)
    measured.peer.push(other)
  }
  return measured
}

/** @returns GETs per second */
function get({ url }: Program, path: string, user?: string): Promise<number> {
  const request = withToken(user, rawRequest('GET', url, path))
  return load(url, lanes, 20_000, () => request, 200)
}

async function latestVersion({ url }: Program): Promise<string> {
  const headers = { authorization: 'Bearer admin' }
  const text = await (await fetch(new URL(`${collection}?size=1`, url), { headers })).text()
  return /"version":"(\d+)"/.exec(text)?.[1] ?? ''
}

const item = itemJson('a', 1, 'x'.repeat(650))

/** Creates the item, and the roles of the reader among many bindings. */
async function prepare(program: Program): Promise<void> {
  const rbacPath = `/apis/${group}/v1`
  await post(program, collection, item)
  const rules = [{ verbs: ['get', 'watch'], apiGroups: ['bench.example.com'], resources: ['items'] }]
  await post(program, `${rbacPath}/clusterroles`, JSON.stringify({ metadata: { name: 'reader' }, rules }))
  const roleRef = { apiGroup: group, kind: 'ClusterRole', name: 'reader' }
  for (let n = 0; n < bindings; n++) {
    const subjects = [{ apiGroup: group, kind: 'Group', name: n === 0 ? 'team' : `team${n}` }]
    const binding = { metadata: { name: `b${n}` }, roleRef, subjects }
    await post(program, `${rbacPath}/clusterrolebindings`, JSON.stringify(binding))
  }
}

async function post({ url }: Program, path: string, body: string): Promise<void> {
  const headers = { 'content-type': 'application/json', authorization: 'Bearer admin' }
  const response = await fetch(new URL(path, url), { method: 'POST', headers, body })
  if (response.status !== 201) throw new Error(await response.text())
}
