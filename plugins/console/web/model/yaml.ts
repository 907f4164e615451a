import {
  boolYaml11Tag,
  CORE_SCHEMA,
  DUMP_SCHEMA,
  dump,
  intCoreTag,
  load,
  NOT_RESOLVED,
  Schema,
  YAMLException,
} from 'js-yaml'
import { type ApiObject, type Fields, isFields } from '../api/json.ts'
import { Conflicted, type FieldConflict } from './merge.ts'

/** Metadata that the server sets. The editor has what a person may change. */
const serverOwned: ReadonlySet<string> = new Set([
  'uid',
  'version',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'managedFields',
  'selfLink',
])

/** Returns what a person may change of an object. */
export function editable(object: ApiObject, hasStatus: boolean): Fields {
  const metadata = Object.fromEntries(
    Object.entries(object.metadata).filter(
      ([name, value]) =>
        !serverOwned.has(name) &&
        value !== undefined &&
        !(name === 'finalizers' && object.metadata.finalizers.length === 0),
    ),
  )
  const { apiVersion, kind, metadata: _, status, ...content } = object
  return { apiVersion, kind, metadata, ...content, ...(!hasStatus && status !== undefined && { status }) }
}

/** YAML 1.1 has the letters y and n as truth values, but nobody's reader of Kubernetes' YAML takes them so. */
const truth = {
  ...boolYaml11Tag,
  resolve(source: string, isExplicit: boolean, tagName: string): boolean | typeof NOT_RESOLVED {
    return /^[yn]$/i.test(source) ? NOT_RESOLVED : boolYaml11Tag.resolve(source, isExplicit, tagName)
  },
}

const written = new Schema(DUMP_SCHEMA.tags.map(tag => (tag.tagName === truth.tagName ? truth : tag)))

export function toYaml(value: unknown): string {
  return dump(value, { schema: written, noRefs: true, lineWidth: -1 })
}

/** A text is not YAML, or cannot be kept exactly. */
export class YamlProblem extends Error {
  override readonly name = 'YamlProblem'
  /** From 0. */
  readonly line: number

  constructor(message: string, line: number) {
    super(message)
    this.line = line
  }
}

/** Integers that a number cannot keep are refused, never rounded. */
const exactInteger = {
  ...intCoreTag,
  resolve(source: string, isExplicit: boolean, tagName: string): number | typeof NOT_RESOLVED {
    const value = intCoreTag.resolve(source, isExplicit, tagName)
    if (typeof value === 'number' && !Number.isSafeInteger(value) && !isExact(source, value))
      throw new RangeError(`the number ${source} cannot be kept exactly; write it in quotes if it is a text`)
    return value
  },
}

const schema = new Schema(
  CORE_SCHEMA.tags.map(tag => (tag.tagName === intCoreTag.tagName ? exactInteger : tag)),
)

function isExact(source: string, value: number): boolean {
  try {
    return BigInt(source.replace(/^\+/, '')) === BigInt(value)
  } catch {
    return false
  }
}

/** Reads the text of an object. @throws YamlProblem */
export function fromYaml(text: string): Fields {
  const marker = text.split('\n').findIndex(line => /^(<{7}|={7}|>{7})( |$)/.test(line))
  if (marker >= 0) throw new YamlProblem('a conflict is not decided yet', marker)
  let value: unknown
  try {
    value = load(text, { schema })
  } catch (error) {
    if (error instanceof YAMLException) throw new YamlProblem(error.reason, error.mark?.line ?? 0)
    throw new YamlProblem(error instanceof Error ? error.message : String(error), 0)
  }
  if (!isFields(value))
    throw new YamlProblem('the text must be an object, with apiVersion, kind and metadata', 0)
  return value
}

/** Returns a merged value as YAML, in which both sides of a conflict stand between markers. */
export function mergedYaml(value: unknown): string {
  const conflicts: FieldConflict[] = []
  const tokenOf = (at: number) => `conflict-5f1d-${at}-`
  const replaced = (each: unknown): unknown => {
    if (each instanceof Conflicted) return tokenOf(conflicts.push(each.conflict) - 1)
    if (Array.isArray(each)) return each.map(replaced)
    if (isFields(each))
      return Object.fromEntries(Object.entries(each).map(([name, part]) => [name, replaced(part)]))
    return each
  }
  const lines = toYaml(replaced(value)).split('\n')
  return lines
    .flatMap(line => {
      const found = /^( *).*conflict-5f1d-(\d+)-$/.exec(line)
      const conflict = found === null ? undefined : conflicts[Number(found[2])]
      if (found === null || conflict === undefined) return [line]
      const side = (part: unknown) => {
        const name = conflict.path.at(-1)
        if (part === undefined || name === undefined) return []
        return toYaml(name === '-' ? [part] : { [name]: part })
          .trimEnd()
          .split('\n')
          .map(each => `${found[1]}${each}`)
      }
      return ['<<<<<<< yours', ...side(conflict.mine), '=======', ...side(conflict.theirs), '>>>>>>> theirs']
    })
    .join('\n')
}

/** The lines of an undecided conflict. */
export interface ConflictMarks {
  readonly start: number
  readonly middle: number
  readonly end: number
}

/** Finds the conflicts in a text by their markers. */
export function conflictsIn(text: string): ConflictMarks[] {
  const found: ConflictMarks[] = []
  let start = -1
  let middle = -1
  for (const [index, line] of text.split('\n').entries()) {
    if (line.startsWith('<<<<<<< ')) start = index
    else if (line === '=======' && start >= 0) middle = index
    else if (line.startsWith('>>>>>>> ') && middle >= 0) {
      found.push({ start, middle, end: index })
      start = -1
      middle = -1
    }
  }
  return found
}

/** Returns the text with one side of a conflict. */
export function decide(
  text: string,
  { start, middle, end }: ConflictMarks,
  side: 'yours' | 'theirs',
): string {
  const lines = text.split('\n')
  const kept = side === 'yours' ? lines.slice(start + 1, middle) : lines.slice(middle + 1, end)
  return [...lines.slice(0, start), ...kept, ...lines.slice(end + 1)].join('\n')
}
