import type { ASTNode } from '@marcbachmann/cel-js'
import { quantified, truthOf } from './access.ts'
import type { Compiled, Frame, MacroCompiler } from './compiled.ts'
import { CelEvaluationError } from './errors.ts'
import { compilePairMacro, isPairMacro, pairMacroNames } from './pair-macros.ts'
import { bool, type CelType, dyn, isCompatible, listOf, nameOf, string } from './types.ts'
import { type CelList, type CelValue, isList, isMap, Optional } from './values.ts'

/** Compiles a call of a macro, which binds a variable. Returns undefined if the name is not a macro. */
export function compileMacro(
  compiler: MacroCompiler,
  node: ASTNode,
  name: string,
  receiver: ASTNode,
  args: readonly ASTNode[],
): Compiled | undefined {
  if (name === 'optMap' || name === 'optFlatMap') return optionalMap(compiler, node, name, receiver, args)
  if (isPairMacro(name, args)) return compilePairMacro(compiler, node, name, receiver, args)
  const arity = arities[name]
  if (arity === undefined) return undefined
  const [variable, ...bodies] = args
  if (!arity.includes(args.length) || variable?.op !== 'id')
    return compiler.fail(
      node,
      `${name} needs a variable and ${arity.map(count => count - 1).join(' or ')} more`,
    )
  const range = compiler.compile(receiver)
  const item = itemTypeOf(compiler, receiver, range.type)
  const [first, second] = bodies.map(body => ({
    ...compiler.compileWith(variable.args, item, body),
    node: body,
  }))
  if (first === undefined) return undefined
  const expectBool = (body: Compiled & { node: ASTNode }) => {
    if (!isCompatible(body.type, bool))
      compiler.fail(body.node, `must be a bool, is of type ${nameOf(body.type)}`)
  }
  if (name === 'map' && second === undefined) {
    return {
      type: listOf(first.type),
      run: frame => itemsOf(range.run(frame)).map(value => runBody(first, value, frame)),
    }
  }
  expectBool(first)
  switch (name) {
    case 'all':
      return {
        type: bool,
        run: frame => quantified(itemsOf(range.run(frame)), value => test(first, value, frame), frame, false),
      }
    case 'exists':
      return {
        type: bool,
        run: frame => quantified(itemsOf(range.run(frame)), value => test(first, value, frame), frame, true),
      }
    case 'exists_one':
      return {
        type: bool,
        run: frame => itemsOf(range.run(frame)).filter(value => test(first, value, frame)).length === 1,
      }
    case 'filter':
      return {
        type: listOf(item),
        run: frame => itemsOf(range.run(frame)).filter(value => test(first, value, frame)),
      }
    default: {
      const transform = second ?? first
      return {
        type: listOf(transform.type),
        run: frame =>
          itemsOf(range.run(frame))
            .filter(value => test(first, value, frame))
            .map(value => runBody(transform, value, frame)),
      }
    }
  }
}

/** The macros over lists and maps, with their numbers of arguments. */
const arities: Readonly<Record<string, readonly number[]>> = Object.assign(Object.create(null), {
  all: [2],
  exists: [2],
  exists_one: [2],
  filter: [2],
  map: [2, 3],
})

export const macroNames: readonly string[] = [
  ...new Set([...Object.keys(arities), ...pairMacroNames, 'optMap', 'optFlatMap']),
]

type Body = Compiled & { readonly slot: number }

function itemTypeOf(compiler: MacroCompiler, node: ASTNode, type: CelType): CelType {
  if (type.kind === 'dyn') return dyn
  if (type.kind === 'list') return type.item
  if (type.kind === 'map') return string
  return compiler.fail(node, `the type ${nameOf(type)} has no items`)
}

/** A map is iterated by its keys. */
function itemsOf(value: CelValue): CelList {
  if (isList(value)) return value
  if (isMap(value)) return [...value.keys()]
  throw new CelEvaluationError('no such overload: the value has no items')
}

function runBody(body: Body, value: CelValue, frame: Frame): CelValue {
  frame.budget.spend(1)
  frame.slots[body.slot] = value
  return body.run(frame)
}

function test(body: Body, value: CelValue, frame: Frame): boolean {
  return truthOf(runBody(body, value, frame))
}

function optionalMap(
  compiler: MacroCompiler,
  node: ASTNode,
  name: string,
  receiver: ASTNode,
  args: readonly ASTNode[],
): Compiled {
  const [variable, body] = args
  if (variable?.op !== 'id' || body === undefined || args.length !== 2)
    return compiler.fail(node, `${name} needs a variable and 1 more`)
  const operand = compiler.compile(receiver)
  if (!isCompatible(operand.type, { kind: 'optional', value: dyn }))
    return compiler.fail(receiver, `must be an optional, is of type ${nameOf(operand.type)}`)
  const inside = operand.type.kind === 'optional' ? operand.type.value : dyn
  const mapped = compiler.compileWith(variable.args, inside, body)
  const isFlat = name === 'optFlatMap'
  if (isFlat && mapped.type.kind !== 'optional' && mapped.type.kind !== 'dyn')
    return compiler.fail(body, `must be an optional, is of type ${nameOf(mapped.type)}`)
  return {
    type: isFlat ? mapped.type : { kind: 'optional', value: mapped.type },
    run: frame => {
      const value = operand.run(frame)
      if (!(value instanceof Optional)) throw new CelEvaluationError('no such overload: not an optional')
      if (value.value === undefined) return value
      const result = runBody(mapped, value.value, frame)
      return isFlat ? result : new Optional(result)
    },
  }
}
