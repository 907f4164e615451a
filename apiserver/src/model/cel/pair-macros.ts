import type { ASTNode } from '@marcbachmann/cel-js'
import { quantified, truthOf } from './access.ts'
import type { Compiled, Frame, MacroCompiler } from './compiled.ts'
import { CelEvaluationError } from './errors.ts'
import { bool, type CelType, dyn, int, isCompatible, listOf, nameOf, string } from './types.ts'
import { type CelValue, isList, isMap } from './values.ts'

/** The macros with two variables, a position or key and its value, with their numbers of arguments. */
const arities: ReadonlyMap<string, readonly number[]> = new Map([
  ['all', [3]],
  ['exists', [3]],
  ['exists_one', [3]],
  ['existsOne', [3]],
  ['transformList', [3, 4]],
  ['transformMap', [3, 4]],
  ['transformMapEntry', [3, 4]],
])

export const pairMacroNames: readonly string[] = [...arities.keys()]

/** Returns true for a call of such a macro. Some names are macros of one variable too. */
export function isPairMacro(name: string, args: readonly ASTNode[]): boolean {
  const arity = arities.get(name)
  return arity !== undefined && (arity.includes(args.length) || arity.length > 1 || name === 'existsOne')
}

type Pair = readonly [key: CelValue, value: CelValue]

/** Compiles a call of a macro with two variables. */
export function compilePairMacro(
  compiler: MacroCompiler,
  node: ASTNode,
  name: string,
  receiver: ASTNode,
  args: readonly ASTNode[],
): Compiled {
  const [first, second, ...bodies] = args
  const arity = arities.get(name) ?? []
  if (!arity.includes(args.length) || first?.op !== 'id' || second?.op !== 'id')
    return compiler.fail(
      node,
      `${name} needs two variables and ${arity.map(count => count - 2).join(' or ')} more`,
    )
  const range = compiler.compile(receiver)
  const [keyType, valueType] = typesOf(compiler, receiver, range.type)
  const compiled = bodies.map(body => ({
    ...compiler.compileWithPair([first.args, keyType], [second.args, valueType], body),
    node: body,
  }))
  const [condition, transform = condition] = compiled
  if (condition === undefined || transform === undefined) return compiler.fail(node, `${name} needs a body`)
  const isFiltered = compiled.length > 1 || !name.startsWith('transform')
  if (isFiltered && !isCompatible(condition.type, bool))
    return compiler.fail(condition.node, `must be a bool, is of type ${nameOf(condition.type)}`)
  const run = (body: typeof condition, [key, value]: Pair, frame: Frame) => {
    frame.budget.spend(1)
    frame.slots[body.slots[0]] = key
    frame.slots[body.slots[1]] = value
    return body.run(frame)
  }
  const test = (pair: Pair, frame: Frame) => truthOf(run(condition, pair, frame))
  const pairs = (frame: Frame) => pairsOf(range.run(frame))
  const selected = (frame: Frame) =>
    isFiltered ? pairs(frame).filter(pair => test(pair, frame)) : pairs(frame)
  switch (name) {
    case 'all':
    case 'exists': {
      const decisive = name === 'exists'
      return {
        type: bool,
        run: frame => quantified(pairs(frame), pair => test(pair, frame), frame, decisive),
      }
    }
    case 'exists_one':
    case 'existsOne':
      return { type: bool, run: frame => selected(frame).length === 1 }
    case 'transformList':
      return {
        type: listOf(transform.type),
        run: frame => selected(frame).map(pair => run(transform, pair, frame)),
      }
    case 'transformMap':
      return {
        type: { kind: 'map', value: transform.type },
        run: frame => new Map(selected(frame).map(pair => [pair[0], run(transform, pair, frame)])),
      }
    default: {
      if (!isCompatible(transform.type, { kind: 'map', value: dyn }))
        return compiler.fail(transform.node, `must be a map, is of type ${nameOf(transform.type)}`)
      return {
        type: transform.type,
        run: frame => mergedEntries(selected(frame).map(pair => run(transform, pair, frame))),
      }
    }
  }
}

function typesOf(compiler: MacroCompiler, node: ASTNode, type: CelType): [CelType, CelType] {
  if (type.kind === 'dyn') return [dyn, dyn]
  if (type.kind === 'list') return [int, type.item]
  if (type.kind === 'map') return [string, type.value]
  return compiler.fail(node, `the type ${nameOf(type)} has no items`)
}

function pairsOf(value: CelValue): Pair[] {
  if (isList(value)) return value.map((item, at) => [BigInt(at), item])
  if (isMap(value)) return [...value]
  throw new CelEvaluationError('no such overload: the value has no items')
}

function mergedEntries(maps: readonly CelValue[]): CelValue {
  const merged = new Map<CelValue, CelValue>()
  for (const map of maps) {
    if (!isMap(map)) throw new CelEvaluationError('no such overload: not a map')
    for (const [key, value] of map) {
      if (merged.has(key)) throw new CelEvaluationError(`the key ${String(key).slice(0, 100)} is there twice`)
      merged.set(key, value)
    }
  }
  return merged
}
