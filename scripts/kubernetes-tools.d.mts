/**
 * Returns the path of a helm binary: of the package of a kubectl version, or of any version. @throws Error that says what to set,
 * if there is none
 */
export function findHelm(version?: string): Promise<string>
/** The versions of kubectl that its tests run. */
export const kubectlVersions: readonly string[]
/** The version of kubectl, with a Helm of its time, that reads no OpenAPI document but `/openapi/v2`. */
export const olderVersion: string
/**
 * Returns the path of a kubectl binary: of a version, or of any. @throws Error that says what to set, if there is none
 */
export function findKubectl(version?: string): Promise<string>
