import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { arrayOf, textOf } from './json.ts'

/** The parts of the Dockerfile that configure a container. */
export interface Image {
  /** The arguments after the program. */
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** The arguments of this instruction in the last stage. */
  instructions(name: string): string[]
}

export async function readImage(): Promise<Image> {
  const text = await readFile(fileURLToPath(new URL('../../Dockerfile', import.meta.url)), 'utf8')
  // A line that ends with a backslash continues on the next.
  const lines = text.replace(/\\\n\s*/g, '')
  const stage = lines.slice(lines.lastIndexOf('\nFROM '))
  const instructions = (name: string) =>
    [...stage.matchAll(new RegExp(`^${name} (.*)$`, 'gm'))].map(([, rest = '']) => rest)
  const env = instructions('ENV')
    .join(' ')
    .matchAll(/(\w+)=(\S+)/g)
  return {
    args: arrayOf(JSON.parse(instructions('CMD')[0] ?? '[]')).map(textOf),
    env: Object.fromEntries([...env].map(([, name, value]) => [name, value])),
    instructions,
  }
}
