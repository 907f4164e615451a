import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parseLabelSelector, SelectorError } from './selector.ts'

/** What Kubernetes reads in label selectors. See `test/fixtures/kubernetes-types/README.md`. */
interface Recorded {
  readonly text: string
  /** Null for an invalid selector. */
  readonly requirements: readonly { key: string; operator: string; values: string[] }[] | null
}

const file = new URL('../../../test/fixtures/kubernetes-types/selectors.jsonl', import.meta.url)
const recorded: Recorded[] = readFileSync(file, 'utf8')
  .trim()
  .split('\n')
  .slice(1)
  .map(line => JSON.parse(line))

test('every label selector is read as Kubernetes reads it', () => {
  expect(recorded.length).toBeGreaterThan(400)
  for (const { text, requirements } of recorded) {
    if (!hasEvenTrailingCommas(text))
      expect(parsed(text), text).toEqual(requirements === null ? 'rejected' : canonical(requirements))
  }
})

test('a list may end with any number of empty elements, also with one that Kubernetes rejects', () => {
  const rejected = recorded.filter(({ text }) => hasEvenTrailingCommas(text))
  expect(rejected).not.toEqual([])
  for (const { text, requirements } of rejected) {
    expect(requirements, text).toBeNull()
    expect(parsed(text), text).toEqual(parsed(text.replace(/,\s*,\s*\)/g, ',)')))
  }
})

/** Kubernetes skips the second of two commas, and misses the bracket that follows it. */
function hasEvenTrailingCommas(text: string): boolean {
  return /[^,\s]\s*(,\s*,\s*)+\)/.test(text)
}

function parsed(text: string): unknown {
  try {
    return canonical(parseLabelSelector(text))
  } catch (error) {
    if (error instanceof SelectorError) return 'rejected'
    throw error
  }
}

/** Kubernetes sorts requirements and values. */
function canonical(requirements: readonly { key: string; operator: string; values: readonly string[] }[]) {
  return requirements
    .map(({ key, operator, values }) => JSON.stringify({ key, operator, values: [...values].sort() }))
    .sort()
}
