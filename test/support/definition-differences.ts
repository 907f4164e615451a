import type { Difference } from './differences.ts'

/** The responses about definitions and admission that differ from the recorded ones. */
export const definitionDifferences: readonly Difference[] = []
