import type { Mutation } from './mutations.ts'

const definitions = 'apiserver/src/definitions'
const registry = 'apiserver/src/registry'

/** Faults that show only while kinds come and go with their definitions. */
export const definitionMutations: readonly Mutation[] = [
  {
    name: 'a server goes on with the deletion of an earlier definition',
    file: `${definitions}/definition-cleanup.ts`,
    from: '  return (await registry.readLive(definitions, name))?.stored.object.metadata.uid === uid\n',
    to: '  return true\n',
  },
  {
    name: 'objects are created while their definition is deleted',
    file: `${definitions}/definition-cleanup.ts`,
    from: '  if (!(await parts.registry.records.end(kind, isThere))) return true\n',
    to: '  if (!(await isThere())) return true\n',
  },
  {
    name: 'a definition ends before its last object',
    file: `${definitions}/definition-cleanup.ts`,
    from: '  if (left === 0) return release(',
    to: '  if (left <= 1) return release(',
  },
  {
    name: 'an unknown kind is not found before definitions are as new as the store',
    file: `${definitions}/definitions.ts`,
    from: '    await this.#parts.gate.pass()\n    if (name !== undefined',
    to: '    if (name !== undefined',
  },
  {
    name: 'a request does not wait until its definition is served',
    file: `${definitions}/definitions.ts`,
    from: '    if (name !== undefined && !this.#isUnderWay(name)) return\n',
    to: '    if (name !== undefined) return\n',
  },
  {
    name: 'the watches of a definition that has gone go on',
    file: `${definitions}/defined-kind-runner.ts`,
    from: "    kind.stop('its definition was deleted')\n",
    to: '',
  },
  {
    name: 'the record of a definition that has ended refuses the next one',
    file: `${registry}/model-record.ts`,
    from: '  return record?.ending !== undefined && record.ending !== defined?.uid\n',
    to: '  return record?.ending !== undefined && record.ending === defined?.uid\n',
  },
  {
    name: 'a creation is refused for a definition that has been created again',
    file: 'apiserver/src/registry/write-transaction.ts',
    from: `    if (write.previous === undefined && inForce?.isEnding)
      inForce = await withApiErrors(this.#records.refresh(served))
`,
    to: '',
  },
]
