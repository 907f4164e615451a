/** Returns the path of a Chromium binary. @throws Error that says what to set, if there is none */
export function findChromium(): Promise<string>
