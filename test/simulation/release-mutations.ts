import type { Mutation } from './mutations.ts'

const cache = 'apiserver/src/cache'
const plugins = 'apiserver/src/plugins'
const registry = 'apiserver/src/registry'

/** Faults that show only while servers have different releases of a plugin, or change theirs. */
export const releaseMutations: readonly Mutation[] = [
  {
    name: 'a reload does not put its unique indexes in force',
    file: `${plugins}/index-claim.ts`,
    from: '  await claimUniqueIndexes(claim)\n',
    // Every server has its own records.
    to: `  const claims = ((claim.records as { claims?: Set<string> }).claims ??= new Set())
  if (!claims.has(claim.served.resource)) await claimUniqueIndexes(claim)
  claims.add(claim.served.resource)
`,
  },
  {
    name: 'unique values are in force before they are computed',
    file: `${registry}/reservation-rebuild.ts`,
    from: 'if (reservations.length === 0 && released.length === 0) return',
    to: 'if (released.length === 0) return',
  },
  {
    name: 'a server with other unique indexes goes on writing',
    file: `${registry}/model-record.ts`,
    from: "  return name === 'in force' || (name",
    to: "  return name !== 'recomputing' || (name",
  },
  {
    name: 'a server writes while unique values are computed',
    file: `${registry}/model-record.ts`,
    from: "(name === 'recomputing' && defined !== undefined)",
    to: "(name === 'recomputing' && defined === defined)",
  },
  {
    name: 'a write does not compare which indexes are in force',
    file: `${registry}/write-transaction.ts`,
    from: 'if (inForce !== undefined) compares.push({ key: recordKey, modRevision: inForce.revision })',
    to: '',
  },
  {
    name: 'a younger object takes a value that is computed',
    file: `${registry}/reservation-rebuild.ts`,
    from: 'if (rightful && holding.pair.createRevision < pair.createRevision) break',
    to: 'if (rightful && holding.pair.createRevision > pair.createRevision) break',
  },
  {
    name: 'a computed value does not compare its reservation',
    file: `${registry}/reservation-rebuild.ts`,
    from: '      ...reservations.map(({ key, modRevision }) => ({ key, modRevision })),\n',
    to: '',
  },
  {
    name: 'a computed value overwrites a newer object',
    file: `${registry}/reservation-rebuild.ts`,
    from: '      { key, modRevision },\n      ...reservations.map(',
    to: '      ...reservations.map(',
  },
  {
    name: 'a migration overwrites a newer object',
    file: `${registry}/stored-version-migration.ts`,
    from: '        { key, modRevision },\n',
    to: '',
  },
  {
    name: 'a migration leaves an object of each page',
    file: `${registry}/stored-version-migration.ts`,
    from: 'const pending = pairs.filter(({ value }) => versionOf(value) !== to.name)',
    to: 'const pending = pairs.filter(({ value }) => versionOf(value) !== to.name).slice(1)',
  },
  {
    name: 'a migration forgets what an object holds',
    file: `${registry}/stored-version-migration.ts`,
    from: 'encodeObject(object)), reservations)',
    to: 'encodeObject(object)), {})',
  },
  {
    name: 'an older release changes the stored version back',
    file: `${registry}/stored-version-claim.ts`,
    from: '  if (lessThan(by, stored.by)) return undefined\n',
    to: '',
  },
  {
    name: 'a reload keeps a kind that has changed',
    file: `${plugins}/plugin-kinds.ts`,
    from: 'isDeepStrictEqual(served.model, model)',
    to: 'isDeepStrictEqual(served.model.kind, model.kind)',
  },
  {
    name: 'the watches of a replaced kind go on',
    file: `${plugins}/kind-runner.ts`,
    from: '    if (cache !== undefined) hub.drop(cache)\n',
    to: '',
  },
  {
    name: 'a replaced kind is taken out before the next one is built',
    file: `${plugins}/plugin-kinds.ts`,
    from: '    this.#exchange(added, dropped, to, from)\n',
    to: '    if (added.length === 0) this.#exchange(added, dropped, to, from)\n',
  },
  {
    name: 'a list selects among objects of unknown versions',
    file: 'apiserver/src/http/resource-api.ts',
    from: '    if (selectsDeclared && cache.unknownVersion !== undefined) throw cache.unknownVersion\n',
    to: '',
  },
  {
    name: 'a watch selects among objects of unknown versions',
    file: `${cache}/model-cache.ts`,
    from: 'this.#unknownVersion ??= unknownVersionOf(decoded.entry)',
    to: 'unknownVersionOf(decoded.entry)',
  },
]
