/** The path of a promtool binary. @throws Error that says what to set, if there is none */
export function findPromtool(): Promise<string>
