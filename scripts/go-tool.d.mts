/** The path of a program that is written in Go, built where it is not there yet. @throws Error that says what is missing */
export function goTool(tool: {
  readonly name: string
  readonly package: string
  readonly cwd?: string
}): Promise<string>
export function isExecutable(path: string): Promise<boolean>
