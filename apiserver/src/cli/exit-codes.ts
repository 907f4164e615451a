/** Exit codes of the program. */
export const exitCodes = Object.freeze({ failure: 1, usage: 2 })
