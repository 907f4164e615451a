import { eventually } from '../support/worlds.ts'

/** Waits until there are no problems. Returns those that are left past the patience. */
export async function settled(
  problems: () => Promise<readonly string[]>,
  patienceMs: number,
): Promise<string[]> {
  try {
    await eventually(async () => {
      const found = await problems()
      if (found.length > 0) throw new Error(found.join('\n'))
    }, patienceMs)
    return []
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)]
  }
}
