export type {
  AccessAnswer,
  AccessQuestion,
  AskAccess,
  Budget,
  CelType,
  CelValue,
  CheckedResource,
  Program,
} from './cel/index.ts'

/** The engine of CEL. */
export type CelModule = typeof import('./cel/index.ts')

/** Loads the engine, which is large, when it is first needed. */
export function importCel(): Promise<CelModule> {
  return import('./cel/index.ts')
}
