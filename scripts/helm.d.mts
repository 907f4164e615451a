/** The path of a helm binary. @throws Error that says what to set, when there is none to be had */
export function findHelm(): Promise<string>
