import { definitionMutations } from './definition-mutations.ts'
import { releaseMutations } from './release-mutations.ts'

/** One fault, as the replacement of a text that the file has exactly once. */
export interface Mutation {
  readonly name: string
  /** Path from the root of the repository. */
  readonly file: string
  readonly from: string
  readonly to: string
}

const registry = 'apiserver/src/registry'
const cache = 'apiserver/src/cache'
const watch = 'apiserver/src/watch'
const sdk = 'controller-runtime/src'
const world = 'test/simulation/world'

/** Faults that the simulation has to find, in the product or in what stands for a part of it, see `npm run simulate -- --mutations`. */
export const mutations: readonly Mutation[] = [
  {
    name: 'a write does not compare the revision',
    file: `${registry}/write-transaction.ts`,
    from: 'const compares: Compare[] = [{ key, modRevision: previous?.revision ?? zeroRevision }]',
    to: 'const compares: Compare[] = []',
  },
  {
    name: 'a write does not compare the reservations',
    file: `${registry}/write-transaction.ts`,
    from: 'for (const reservation of plan.taken) {',
    to: 'for (const reservation of plan.taken.slice(1)) {',
  },
  {
    name: 'a write forgets to reserve its unique values',
    file: `${registry}/write-transaction.ts`,
    from: "for (const { key, holder } of taken) operations.push({ type: 'put', key, value: holder })",
    to: '',
  },
  {
    name: 'every reservation counts as orphaned',
    file: `${registry}/write-transaction.ts`,
    from: 'holder.uid !== write.uid &&',
    to: 'false &&',
  },
  {
    name: 'a creation does not compare its namespace',
    file: `${registry}/write-transaction.ts`,
    from: 'if (guard !== undefined) compares.push(guard)',
    to: '',
  },
  {
    name: 'the version of a precondition is ignored',
    file: `${registry}/preconditions.ts`,
    from: 'if (compareVersions(given, version) !== 0) {',
    to: 'if (compareVersions(given, version) > 0) {',
  },
  {
    name: 'the uid of a precondition is ignored',
    file: `${registry}/preconditions.ts`,
    from: 'if (wanted.uid !== undefined && wanted.uid !== uid) {',
    to: "if (wanted.uid === '') {",
  },
  {
    name: 'a deletion ignores finalizers',
    file: `${registry}/registry.ts`,
    from: 'if (finalizers.length > 0 || served.rules?.holds?.(object))',
    to: 'if (served.rules?.holds?.(object))',
  },
  {
    name: 'an object stays without its last finalizer',
    file: `${registry}/registry.ts`,
    from: 'removes: deletionTimestamp !== undefined && !isHeld }',
    to: 'removes: false }',
  },
  {
    name: 'a repeated deletion begins again',
    file: `${registry}/registry.ts`,
    from: '    if (metadata.deletionTimestamp !== undefined) return undefined\n',
    to: '',
  },
  {
    name: 'a refusal rests on the cache',
    file: `${registry}/commit-loop.ts`,
    from: '        if (!current.isLive) {\n',
    to: '        if (current.isLive) {\n',
  },
  {
    name: 'an unknown outcome counts as refused',
    file: `${registry}/refusals.ts`,
    from: "      'Timeout',\n      'the store has not answered",
    to: "      'ServiceUnavailable',\n      'the store has not answered",
  },
  {
    name: 'the generation does not rise',
    file: `${registry}/object-draft.ts`,
    from: 'completed.metadata.generation = generationAfter(owned)',
    to: 'completed.metadata.generation = owned.generation',
  },
  {
    name: 'a kind that is not registered yet is not found',
    file: 'apiserver/src/http/request-info.ts',
    from: 'const isEarly = info?.served === undefined && info?.isEarly',
    to: 'const isEarly = false',
  },
  {
    name: 'reads skip the gate',
    file: `${cache}/read-gate.ts`,
    from: '      await this.#next\n',
    to: '      this.#next.catch(() => {})\n',
  },
  {
    name: 'a read joins a question that was sent before it',
    file: `${cache}/read-gate.ts`,
    from: `    this.#next = undefined
    this.#asking = true
    let head: { current: Revision; written: Revision }
    try {
      head = await this.#storage.head({ signal: AbortSignal.timeout(gateDefaults.waitMs) })
    } finally {
`,
    to: `    this.#asking = true
    let head: { current: Revision; written: Revision }
    try {
      head = await this.#storage.head({ signal: AbortSignal.timeout(gateDefaults.waitMs) })
    } finally {
      this.#next = undefined
`,
  },
  {
    name: 'reads do not wait for the cache',
    file: `${cache}/read-gate.ts`,
    from: 'if (this.#follower.position < head.written || this.#follower.trouble !== undefined) {',
    to: 'if (this.#follower.trouble !== undefined) {',
  },
  {
    name: 'observers miss a change now and then',
    file: `${cache}/model-cache.ts`,
    from: '    for (const observer of this.#observers) {\n      try {',
    to: '    for (const observer of change.revision % 20 === 0 ? [] : this.#observers) {\n      try {',
  },
  {
    name: 'a cache misses the changes during its build',
    file: `${cache}/log-follower.ts`,
    from: 'for (const change of pending) cache.apply(change)',
    to: '',
  },
  {
    name: 'the follower goes on from the present after an outage',
    file: `${cache}/log-follower.ts`,
    from: 'if (!this.#begun) this.#begin(current)',
    to: 'if (!this.#begun || !this.#isLost) this.#begin(current)',
  },
  {
    name: 'a rebuilt cache ends no watch',
    file: `${cache}/model-cache.ts`,
    from: '    this.#problemsChanged()\n    for (const observer of this.#observers) observer.reset()',
    to: '    this.#problemsChanged()',
  },
  {
    name: 'a page comes from another state than the first',
    file: `${cache}/snapshot-cache.ts`,
    from: 'if (revision >= latest) return this.present()',
    to: 'if (revision >= latest - 3) return this.present()',
  },
  {
    name: 'a rewound state misses a change',
    file: `${cache}/snapshot-cache.ts`,
    from: 'const changes = history.latestFirst(revision, from)',
    to: 'const changes = history.latestFirst((revision + 1) as Revision, from)',
  },
  {
    name: 'a bookmark overtakes changes',
    file: `${watch}/audience.ts`,
    from: '    this.flush()\n    const events = [bookmarkEvent',
    to: '    const events = [bookmarkEvent',
  },
  {
    name: 'the last bookmark promises what was not sent',
    file: `${watch}/subscription.ts`,
    from: '    this.#audience.flush()\n    this.deliverBookmark',
    to: '    this.deliverBookmark',
  },
  {
    name: 'a watch that joins its audience gets changes twice',
    file: `${watch}/audience.ts`,
    from: 'subscription.skip = this.#pending.length',
    to: 'subscription.skip = 0',
  },
  {
    name: 'a watch that joins its audience misses a change',
    file: `${watch}/audience.ts`,
    from: 'subscription.skip = this.#pending.length',
    to: 'subscription.skip = this.#pending.length + 1',
  },
  {
    name: 'a resumed watch repeats its last change',
    file: `${watch}/subscription.ts`,
    from: 'this.#position = request.after ?? present',
    to: 'this.#position = toRevision(Math.max(0, (request.after ?? present) - 1))',
  },
  {
    name: 'a resumed watch does not read older changes from the store',
    file: `${watch}/watch-hub.ts`,
    from: 'if (request.after !== undefined) await this.#replay.reach(cache, request.after, signal)',
    to: '',
  },
  {
    name: 'a watch goes on past changes that are no longer kept',
    file: `${watch}/subscription.ts`,
    from: '    if (this.#position < history.floor) {\n      this.expire()\n      return\n    }\n',
    to: '    this.#position = laterRevision(this.#position, history.floor)\n',
  },
  {
    name: 'a watch does not tell of what ceases to match',
    file: `${watch}/audience.ts`,
    from: "return before ? 'DELETED' : undefined",
    to: "return before && next === undefined ? 'DELETED' : undefined",
  },
  {
    name: 'what begins to match is not added',
    file: `${watch}/audience.ts`,
    from: "if (after) return before ? 'MODIFIED' : 'ADDED'",
    to: "if (after) return previous !== undefined ? 'MODIFIED' : 'ADDED'",
  },
  {
    name: 'a deletion has the version before',
    file: `${watch}/wire-event.ts`,
    from: "type === 'DELETED' ? withVersion(version, entry.name, bytes, entry.revision, revision) : bytes",
    to: 'bytes',
  },
  {
    name: 'the collector deletes what still has an owner',
    file: `${sdk}/collector/sync-action.ts`,
    from: "const isHeld = standings.some(standing => standing === 'orphaning' || !isLooseStanding(standing))",
    to: 'const isHeld = false',
  },
  {
    name: 'an owner lets its dependents go before all of them are known',
    file: `${sdk}/collector/collector-run.ts`,
    from: 'const behind = this.#behind(node)\n',
    to: 'const behind: KindView[] = []\n',
  },
  {
    name: 'the collector takes an object of the same name for the owner',
    file: `${sdk}/collector/collector-run.ts`,
    from: 'if (found?.metadata.uid === uid) return',
    to: 'if (found !== undefined) return',
  },
  {
    name: 'the collector takes an owner that it cannot read for gone',
    file: `${sdk}/collector/collector-run.ts`,
    from: "      record('unresolved')\n      throw error",
    to: "      record('absent')\n      throw error",
  },
  {
    name: 'the collector forgets an owner that it could not read',
    file: `${sdk}/collector/collector-run.ts`,
    from: "      record('unresolved')\n      throw error",
    to: "      record('unresolved')",
  },
  {
    name: 'the collector decides by what it knew before a restore',
    file: `${sdk}/collector/collector-run.ts`,
    from: 'if (doubts.checks.size > 0) return',
    to: 'if (doubts.checks.size < 0) return',
  },
  {
    name: 'owners lose their namespace when their kind goes',
    file: `${sdk}/collector/graph.ts`,
    from: '\n      this.#isNamespaced(group, kind) || this.#owners.has(keyOf({ group, kind }, { namespace, name, uid }))\n',
    to: ' this.#isNamespaced(group, kind)\n',
  },
  {
    name: 'a reported deletion counts after a restore',
    file: `${sdk}/collector/collector-run.ts`,
    from: 'deletedAt !== undefined && compareVersions(seen, deletedAt) < 0',
    to: 'deletedAt !== undefined',
  },
  {
    name: 'a watch goes on when its role has gone',
    file: 'apiserver/src/security/rbac/rbac-authorizer.ts',
    from: 'for (const listener of [...this.#listeners]) listener()',
    to: '',
  },
  {
    name: 'a read goes by the roles from before it caught up',
    file: 'apiserver/src/http/resource-api.ts',
    from: '    request.authorize?.()\n',
    to: '',
  },
  {
    name: 'a watch goes on when its token has gone',
    file: 'apiserver/src/http/watch-api.ts',
    from: '      this.onRevoked()\n',
    to: '',
  },
  {
    name: 'a watch begins although its token has gone meanwhile',
    file: 'apiserver/src/http/watch-api.ts',
    from: 'if (this.#isRevoked) throw',
    to: 'if (this.#isRevoked && this.payer === undefined) throw',
  },
  {
    name: 'a token that was taken away still counts',
    file: `${world}/token-access.ts`,
    from: '      this.#known.delete(token)\n',
    to: '',
  },
  {
    name: 'a binding that was deleted still counts',
    file: 'apiserver/src/security/rbac/rbac-authorizer.ts',
    from: 'if (this.grantOf(user, verb, target) === undefined) throw',
    to: 'if (this.grantOf(user, verb, target) === undefined && !this.#isReady) throw',
  },
  {
    name: 'a restored store that has grown is taken for the one before',
    file: `${world}/store-link.ts`,
    from: 'return this.#core.life !== this.life',
    to: 'return this.#core.revision < this.#delivered',
  },
  {
    name: 'a server goes on with a store that was restored',
    file: `${world}/store-link.ts`,
    from: 'return this.#core.life !== this.life',
    to: 'return false',
  },
  {
    name: 'a server empties a later namespace of the same name',
    file: 'apiserver/src/kubernetes/namespace-lifecycle.ts',
    from: 'if (!(await this.#isThere(namespace, uid))) return',
    to: 'if (uid === undefined) return',
  },
  {
    name: 'a body is not released when its request ends',
    file: 'apiserver/src/http/middleware/checks.ts',
    from: 'served.finally(() => ctx.state.seat?.leave())',
    to: 'served.then(() => ctx.state.seat?.leave())',
  },
  {
    name: 'a watch goes on without its connection',
    file: 'apiserver/src/http/watch-api.ts',
    from: '      connection.onClose(() => watch.close())\n',
    to: '',
  },
  {
    name: 'the place of a closed watch stays taken',
    file: 'apiserver/src/http/watch-api.ts',
    from: "    handshake.connectionSocket.once('close', () => stay.leave())\n",
    to: '',
  },
  {
    name: 'a stream goes on without its connection',
    file: 'apiserver/src/http/watch-api.ts',
    from: "      response.on('close', () => watch.close())\n",
    to: '',
  },
  {
    name: 'the watches of a shared socket go on without it',
    file: 'apiserver/src/http/watch-multiplexer.ts',
    from: `    connection.onClose(() => {
      for (const subscription of this.#subscriptions.values()) subscription.close()
    })
`,
    to: '',
  },
  ...releaseMutations,
  ...definitionMutations,
  {
    name: 'a leader writes on after its lease has expired',
    file: `${sdk}/manager/leader-election.ts`,
    from: '  leadershipGuard(): void {\n    if (this.isLeader) return\n',
    to: "  leadershipGuard(): void {\n    if (this.#phase === 'leading') return\n",
  },
  {
    name: 'a lease is taken before it has expired',
    file: `${sdk}/manager/lease-lock.ts`,
    from: 'holder !== this.#identity && this.runsOutInMs > 0 &&',
    to: 'holder !== this.#identity && this.runsOutInMs > 12_000 &&',
  },
]
