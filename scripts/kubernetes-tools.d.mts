/** Returns the path of a helm binary. @throws Error that says what to set, if there is none */
export function findHelm(): Promise<string>
/** Returns the path of a kubectl binary. @throws Error that says what to set, if there is none */
export function findKubectl(): Promise<string>
