/** Returns the path of a helm binary. @throws Error that says what to set, if there is none */
export function findHelm(): Promise<string>
/** The versions of kubectl that `findKubectl` finds by their number. */
export const kubectlVersions: readonly string[]
/**
 * Returns the path of a kubectl binary: of a version, or of any. @throws Error that says what to set, if there is none
 */
export function findKubectl(version?: string): Promise<string>
