import { definitionDifferences } from './support/definition-differences.ts'
import { describeExactReplays } from './support/exact-replays.ts'

describeExactReplays(
  [
    ...['definitions', 'definition-schemas', 'definition-rules'],
    ...['definition-objects', 'definition-writes', 'definition-reads', 'conversion'],
  ],
  definitionDifferences,
)
