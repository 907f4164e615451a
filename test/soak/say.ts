export type Say = (line: string) => void

/** Returns a function that prints lines, each with the seconds since now. @param subject precedes each line */
export function startSaying(subject?: string): Say {
  const began = performance.now()
  return line => {
    const seconds = String(Math.round((performance.now() - began) / 1000)).padStart(5)
    console.log(`${seconds} s  ${subject === undefined ? '' : `${subject}: `}${line}`)
  }
}
