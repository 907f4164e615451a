/**
 * Returns the path of the `setpoint` of an earlier commit of this repository. It is built at its first use.
 *
 * @param commit anything that git resolves to a commit
 * @throws Error if the commit is not there, or does not build
 */
export function findEarlierProgram(commit: string): Promise<string>
