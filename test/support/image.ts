import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { arrayOf, textOf } from './json.ts'

/** One stage of a Dockerfile. */
export interface Stage {
  /** The image that it starts from, with the values of `ARG` before the first stage. */
  readonly from: string
  /** The arguments of this instruction. */
  instructions(name: string): string[]
}

/** The parts of a Dockerfile that build an image and configure a container. */
export interface Image extends Stage {
  /** The arguments after the program. */
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** The stages before the last. */
  readonly builds: readonly Stage[]
}

/** @param path default: the Dockerfile of the repository */
export async function readImage(path?: string): Promise<Image> {
  const file = path ?? fileURLToPath(new URL('../../Dockerfile', import.meta.url))
  const text = await readFile(file, 'utf8')
  // A line that ends with a backslash continues on the next.
  const [head = '', ...bodies] = text.replace(/\\\n\s*/g, '').split(/^FROM /m)
  const values = Object.fromEntries([...head.matchAll(/^ARG (\w+)=(\S+)$/gm)].map(([, ...pair]) => pair))
  const stages = bodies.map(body => stageOf(body, values))
  const last = stages.pop()
  if (last === undefined) throw new Error(`${file} has no stage`)
  const env = last
    .instructions('ENV')
    .join(' ')
    .matchAll(/(\w+)=(\S+)/g)
  return {
    ...last,
    builds: stages,
    args: arrayOf(JSON.parse(last.instructions('CMD')[0] ?? '[]')).map(textOf),
    env: Object.fromEntries([...env].map(([, name, value]) => [name, value])),
  }
}

function stageOf(body: string, values: Readonly<Record<string, string>>): Stage {
  const [image = ''] = body.split(/\s/)
  return {
    from: image.replace(/\$\{(\w+)\}/g, (_, name) => values[name] ?? ''),
    instructions: name => [...body.matchAll(new RegExp(`^${name} (.*)$`, 'gm'))].map(([, rest = '']) => rest),
  }
}
