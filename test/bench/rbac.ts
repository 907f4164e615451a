import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RbacAuthorizer, type Role, type Subject } from '../../apiserver/dist/security/index.js'
import { collection, lanes, rounds } from './items.ts'
import { type Program, startSetpoint } from './program.ts'
import { load, rawRequest } from './raw-http.ts'
import type { Row } from './table.ts'

const bindings = 1_000
const decisions = 200_000
const group = 'rbac.authorization.k8s.io'

/** The time of a decision, and the cost of roles for reads. */
export async function rbac(): Promise<Row[]> {
  return [...decisionRows(), await reads()]
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
    { name: `${name}, beside a look-up in a Map`, unit: 'µs', ours, peer },
    { name: `${name}, beside the aim`, unit: 'µs', ours, peer: ours.map(() => 5), aim: { atMost: 1 } },
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

/** Compares GETs of a user whose role allows them with those of an administrator, on one server with many bindings. */
async function reads(): Promise<Row> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'))
  try {
    const entry = (user: string, groups: string[]) => ({
      ...{ user, groups, sha256: createHash('sha256').update(user).digest('hex') },
    })
    const users = [entry('admin', ['setpoint:admins']), entry('reader', ['team', 'others'])]
    await writeFile(join(folder, 'tokens'), JSON.stringify(users), { mode: 0o600 })
    await using setpoint = await startSetpoint(['--token-file', join(folder, 'tokens')])
    await prepare(setpoint)
    const request = (user: string) =>
      rawRequest('GET', setpoint.url, `${collection}/a`).replace(
        '\r\n\r\n',
        `\r\nauthorization: Bearer ${user}\r\n\r\n`,
      )
    const ours: number[] = []
    const peer: number[] = []
    for (let round = -1; round < rounds; round++) {
      const reader = await load(setpoint.url, lanes, 20_000, () => request('reader'), 200)
      const admin = await load(setpoint.url, lanes, 20_000, () => request('admin'), 200)
      if (round < 0) continue
      ours.push(reader)
      peer.push(admin)
    }
    const name = `GET by a role among ${bindings} bindings, beside an administrator`
    return { name, unit: '1/s', ours, peer, aim: { atLeast: 0.95 } }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function prepare({ url }: Program): Promise<void> {
  const post = async (path: string, body: object) => {
    const response = await fetch(new URL(path, url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer admin' },
      body: JSON.stringify(body),
    })
    if (response.status !== 201) throw new Error(await response.text())
  }
  const rbacPath = `/apis/${group}/v1`
  await post(collection, {
    ...{
      apiVersion: 'bench.example.com/v1',
      kind: 'Item',
      metadata: { name: 'a' },
      spec: { text: 'x', n: 1, tags: [] },
    },
  })
  await post(`${rbacPath}/clusterroles`, {
    metadata: { name: 'reader' },
    rules: [{ verbs: ['get'], apiGroups: ['bench.example.com'], resources: ['items'] }],
  })
  const roleRef = { apiGroup: group, kind: 'ClusterRole', name: 'reader' }
  for (let n = 0; n < bindings; n++)
    await post(`${rbacPath}/clusterrolebindings`, {
      metadata: { name: `b${n}` },
      roleRef,
      subjects: [{ apiGroup: group, kind: 'Group', name: n === 0 ? 'team' : `team${n}` }],
    })
}
