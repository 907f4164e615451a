import { type ASTNode, Environment, ParseError } from '@marcbachmann/cel-js'
import { optionally, present, readField, readItem, truthOf } from './access.ts'
import { Authorizer } from './authorization.ts'
import { type Budget, celLimits, stepCosts } from './budget.ts'
import type { Compiled, Frame, MacroCompiler } from './compiled.ts'
import { CelCompileError, CelEvaluationError } from './errors.ts'
import { keywordName } from './field-name.ts'
import { functions, methods, typeNames } from './functions.ts'
import { compileMacro } from './macros.ts'
import { operators } from './operators.ts'
import { accepts, mismatch, type Overload } from './overloads.ts'
import { compilePattern } from './patterns.ts'
import { bool, type CelType, dyn, isCompatible, joined, listOf, nameOf } from './types.ts'
import { type CelValue, equals, isList, Optional } from './values.ts'

/** A compiled expression. */
export interface Program {
  readonly type: CelType
  /** The variables that it uses. */
  readonly uses: ReadonlySet<string>
  /** @throws CelEvaluationError if it has no value, BudgetExceededError */
  evaluate(variables: Readonly<Record<string, CelValue | undefined>>, budget: Budget): CelValue
}

const parser = new Environment({ unlistedVariablesAreDyn: true, enableOptionalTypes: true })

/**
 * Compiles an expression. The library parses it; types are checked here, since every name and every type must be known
 * before a rule is used.
 * @param maxLength characters of the expression
 * @throws CelCompileError with the line and the column
 */
export function compileCel(
  text: string,
  variables: ReadonlyMap<string, CelType>,
  maxLength: number = celLimits.expressionLength,
): Program {
  if (text.length > maxLength) throw new CelCompileError(`it must have at most ${maxLength} characters`)
  const compiler = new Compiler(text, variables)
  const { type, run } = compiler.compile(parse(text))
  const names = [...variables.keys()]
  return {
    type,
    uses: compiler.used,
    evaluate(values, budget) {
      return run({ slots: names.map(name => values[name] ?? null), budget })
    },
  }
}

function parse(text: string): ASTNode {
  try {
    return parser.parse(text).ast
  } catch (error) {
    if (!(error instanceof ParseError)) throw error
    throw new CelCompileError(`${error.summary}${placeOf(text, error.range?.start ?? text.length)}`)
  }
}

function placeOf(text: string, at: number): string {
  const before = text.slice(0, at).split('\n')
  const column = (before.at(-1)?.length ?? 0) + 1
  return ` (line ${before.length}, column ${column})`
}

function requestResourceOf(value: CelValue): CelValue | undefined {
  return value instanceof Authorizer ? value.requestResource : undefined
}

class Compiler implements MacroCompiler {
  readonly used = new Set<string>()
  readonly #text: string
  /** The variables in scope, with their slots. */
  #scope: ReadonlyMap<string, { readonly type: CelType; readonly slot: number }>
  #slots: number
  readonly #globals: ReadonlySet<string>

  constructor(text: string, variables: ReadonlyMap<string, CelType>) {
    this.#text = text
    this.#scope = new Map([...variables].map(([name, type], slot) => [name, { type, slot }]))
    this.#slots = variables.size
    this.#globals = new Set(variables.keys())
  }

  fail(node: ASTNode, message: string): never {
    throw new CelCompileError(message + placeOf(this.#text, node.pos))
  }

  compileWith(name: string, type: CelType, node: ASTNode): Compiled & { readonly slot: number } {
    const outer = this.#scope
    const slot = this.#slots++
    this.#scope = new Map([...outer, [name, { type, slot }]])
    const compiled = this.compile(node)
    this.#scope = outer
    return { ...compiled, slot }
  }

  compileWithPair(
    [first, firstType]: readonly [string, CelType],
    [second, secondType]: readonly [string, CelType],
    node: ASTNode,
  ): Compiled & { readonly slots: readonly [number, number] } {
    const outer = this.#scope
    const slot = this.#slots++
    this.#scope = new Map([...outer, [first, { type: firstType, slot }]])
    const { slot: of, ...compiled } = this.compileWith(second, secondType, node)
    this.#scope = outer
    return { ...compiled, slots: [slot, of] }
  }

  compile(node: ASTNode): Compiled {
    switch (node.op) {
      case 'value':
        return this.#literal(node, node.args)
      case 'id':
        return this.#identifier(node, node.args)
      case '.':
        return this.#select(node, this.compile(node.args[0]), node.args[1])
      case '.?':
        return this.#optionalSelect(node, this.compile(node.args[0]), node.args[1])
      case '[]':
        return this.#index(node, this.compile(node.args[0]), this.compile(node.args[1]))
      case '[?]':
        return this.#optionalIndex(node, this.compile(node.args[0]), this.compile(node.args[1]))
      case 'call':
        return this.#call(node, node.args[0], node.args[1])
      case 'rcall':
        return this.#methodCall(node, node.args[0], node.args[1], node.args[2])
      case 'list':
        return this.#list(node.args, { isUniform: true })
      case 'map':
        return this.#map(node.args)
      case '?:':
        return this.#conditional(node, node.args)
      case '&&':
      case '||':
        return this.#logical(node.op === '||', node.args)
      case '!_':
        return this.#overloaded(node, '!', operators[node.op], [this.compile(node.args)])
      case '-_':
        return this.#negation(node, node.args)
      case '==':
      case '!=':
        return this.#equality(node, node.op === '==', node.args)
      default:
        return this.#overloaded(
          node,
          node.op,
          operators[node.op],
          node.args.map(arg => this.compile(arg)),
        )
    }
  }

  #literal(node: ASTNode, value: unknown): Compiled {
    const of = (kind: 'null' | 'bool' | 'int' | 'double' | 'string' | 'bytes', literal: CelValue) => ({
      type: { kind },
      run: () => literal,
    })
    if (value === null) return of('null', null)
    if (typeof value === 'boolean') return of('bool', value)
    if (typeof value === 'number') return of('double', value)
    if (typeof value === 'string') return of('string', value)
    if (value instanceof Uint8Array) return of('bytes', value)
    if (typeof value !== 'bigint') return this.fail(node, 'unsigned integers are not supported')
    if (BigInt.asIntN(64, value) !== value) return this.fail(node, 'the integer has more than 64 bits')
    return of('int', value)
  }

  #negation(node: ASTNode, operand: ASTNode): Compiled {
    if (operand.op === 'value' && typeof operand.args === 'bigint') return this.#literal(node, -operand.args)
    return this.#overloaded(node, '-', operators['-_'], [this.compile(operand)])
  }

  #identifier(node: ASTNode, name: string): Compiled {
    const variable = this.#scope.get(name)
    if (variable !== undefined) {
      const { type, slot } = variable
      if (this.#globals.has(name)) this.used.add(name)
      return { type, run: ({ slots }) => slots[slot] ?? null }
    }
    const type = typeNames.get(name)
    if (type === undefined) return this.fail(node, `undeclared reference to ${JSON.stringify(name)}`)
    return { type: { kind: 'type' }, run: () => type }
  }

  /** Returns the type of a field, and a function that reads it. It returns undefined if the field is missing. */
  field(
    node: ASTNode,
    type: CelType,
    name: string,
  ): { type: CelType; read: (value: CelValue) => CelValue | undefined } {
    switch (type.kind) {
      case 'object': {
        // A word of CEL may also be written without the underscores around it.
        const readAs = type.fields.has(name) ? name : (keywordName(name) ?? name)
        const field = type.fields.get(readAs)
        if (field === undefined) return this.fail(node, `undefined field ${JSON.stringify(name)}`)
        return { type: field, read: value => readField(value, readAs) }
      }
      case 'map':
        return { type: type.value, read: value => readField(value, name) }
      case 'dyn':
        return { type: dyn, read: value => readField(value, name) }
      case 'authorizer':
        if (name === 'requestResource') return { type: { kind: 'resourceCheck' }, read: requestResourceOf }
        return this.fail(node, `undefined field ${JSON.stringify(name)}`)
      default:
        return this.fail(node, `the type ${nameOf(type)} has no fields`)
    }
  }

  #select(node: ASTNode, operand: Compiled, name: string): Compiled {
    // A field of an optional is optional too.
    if (operand.type.kind === 'optional') return this.#optionalSelect(node, operand, name)
    const { type, read } = this.field(node, operand.type, name)
    return { type, run: frame => present(read(operand.run(frame)), name) }
  }

  #optionalSelect(node: ASTNode, operand: Compiled, name: string): Compiled {
    const inside = operand.type.kind === 'optional' ? operand.type.value : operand.type
    const { type, read } = this.field(node, inside, name)
    return optionally(operand, type, value => read(value))
  }

  #index(node: ASTNode, operand: Compiled, key: Compiled): Compiled {
    if (operand.type.kind === 'optional') return this.#optionalIndex(node, operand, key)
    const type = this.#itemType(node, operand.type, key.type)
    return {
      type,
      run: frame => {
        const index = key.run(frame)
        const container = operand.run(frame)
        const problem = isList(container) ? 'index out of bounds' : undefined
        return present(readItem(container, index), String(index), problem)
      },
    }
  }

  #optionalIndex(node: ASTNode, operand: Compiled, key: Compiled): Compiled {
    const inside = operand.type.kind === 'optional' ? operand.type.value : operand.type
    const type = this.#itemType(node, inside, key.type)
    return optionally(operand, type, (value, frame) => readItem(value, key.run(frame)))
  }

  #itemType(node: ASTNode, type: CelType, key: CelType): CelType {
    if (type.kind === 'dyn') return dyn
    if (type.kind === 'list' && isCompatible(key, { kind: 'int' })) return type.item
    if (type.kind === 'map' && isCompatible(key, { kind: 'string' })) return type.value
    return this.fail(node, `the type ${nameOf(type)} has no index of type ${nameOf(key)}`)
  }

  #call(node: ASTNode, name: string, args: ASTNode[]): Compiled {
    if (name === 'has') return this.#has(node, args)
    if (name === 'matches') this.#checkPattern(args[1])
    const table = Object.hasOwn(functions, name) ? functions[name] : undefined
    return this.#overloaded(
      node,
      name,
      table,
      args.map(arg => this.compile(arg)),
    )
  }

  #has(node: ASTNode, args: readonly ASTNode[]): Compiled {
    const [arg] = args
    if (arg?.op !== '.' || args.length !== 1) return this.fail(node, 'has needs one field selection')
    const operand = this.compile(arg.args[0])
    const [, name] = arg.args
    const inside = operand.type.kind === 'optional' ? operand.type.value : operand.type
    const { read } = this.field(arg, inside, name)
    return {
      type: bool,
      run: frame => {
        const value = operand.run(frame)
        if (!(value instanceof Optional)) return read(value) !== undefined
        return value.value !== undefined && read(value.value) !== undefined
      },
    }
  }

  #methodCall(node: ASTNode, name: string, receiver: ASTNode, args: ASTNode[]): Compiled {
    if (receiver.op === 'id' && !this.#scope.has(receiver.args)) {
      const qualified = `${receiver.args}.${name}`
      if (Object.hasOwn(functions, qualified)) return this.#call(node, qualified, args)
    }
    const macro = compileMacro(this, node, name, receiver, args)
    if (macro !== undefined) return macro
    const [pattern] = args
    if (name === 'matches') this.#checkPattern(pattern)
    const table = Object.hasOwn(methods, name) ? methods[name] : undefined
    const compiled = args.map(arg =>
      // As in Kubernetes, only the values of a format may be of several types.
      name === 'format' && arg.op === 'list' ? this.#list(arg.args, { isUniform: false }) : this.compile(arg),
    )
    return this.#overloaded(node, name, table, [this.compile(receiver), ...compiled])
  }

  /** Refuses a literal pattern that is invalid. */
  #checkPattern(pattern: ASTNode | undefined): void {
    if (pattern?.op !== 'value' || typeof pattern.args !== 'string') return
    const compiled = compilePattern(pattern.args)
    if (compiled instanceof CelEvaluationError) this.fail(pattern, compiled.message)
  }

  #overloaded(
    node: ASTNode,
    name: string,
    table: readonly Overload[] | undefined,
    args: readonly Compiled[],
  ): Compiled {
    if (table === undefined) return this.fail(node, `undeclared reference to the function ${name}`)
    const types = args.map(({ type }) => type)
    const candidates = table.flatMap(({ params, resultOf, run }) => {
      if (params.length !== args.length) return []
      const isAccepted = params.every((param, at) => {
        const type = types[at]
        return type !== undefined && accepts(param, type)
      })
      const type = isAccepted ? resultOf(types) : undefined
      return type ? [{ type, run }] : []
    })
    const [first, ...others] = candidates.map(({ type }) => type)
    if (first === undefined)
      return this.fail(node, `no overload of ${name} for (${types.map(nameOf).join(', ')})`)
    return {
      type: others.reduce(joined, first),
      run: frame => {
        const values = args.map(arg => arg.run(frame))
        for (const candidate of candidates) {
          const result = candidate.run(values, frame.budget)
          if (result !== mismatch) return result
        }
        throw new CelEvaluationError(`no such overload of ${name}`)
      },
    }
  }

  #list(nodes: readonly ASTNode[], { isUniform }: { readonly isUniform: boolean }): Compiled {
    const items = nodes.map(node => this.compile(node))
    const types = items.map(({ type }) => type)
    if (isUniform) this.#checkUniform(nodes, types)
    const [first = dyn, ...others] = types
    return {
      type: listOf(others.reduce(joined, first)),
      run: frame => {
        frame.budget.spend(items.length)
        return items.map(item => item.run(frame))
      },
    }
  }

  #map(nodes: readonly (readonly [ASTNode, ASTNode])[]): Compiled {
    const entries = nodes.map(([key, value]) => [key, this.compile(key), this.compile(value)] as const)
    for (const [node, key] of entries) {
      if (!isCompatible(key.type, { kind: 'string' }))
        this.fail(node, `the keys of a map must be strings, not ${nameOf(key.type)}`)
    }
    const types = entries.map(([, , value]) => value.type)
    this.#checkUniform(
      nodes.map(([, value]) => value),
      types,
    )
    const [first = dyn, ...others] = types
    return {
      type: { kind: 'map', value: others.reduce(joined, first) },
      run: frame => {
        frame.budget.spend(entries.length)
        return new Map(entries.map(([, key, value]) => [key.run(frame), value.run(frame)]))
      },
    }
  }

  /** Refuses a literal with values of several types, as Kubernetes does. */
  #checkUniform(nodes: readonly ASTNode[], types: readonly CelType[]): void {
    const [first] = types
    if (first === undefined) return
    for (const [at, type] of types.entries()) {
      const node = nodes[at]
      if (node !== undefined && !isCompatible(first, type))
        this.fail(node, `must be of the type ${nameOf(first)} as the first one, is of type ${nameOf(type)}`)
    }
  }

  #conditional(node: ASTNode, [test, then, otherwise]: readonly [ASTNode, ASTNode, ASTNode]): Compiled {
    const condition = this.condition(test)
    const [yes, no] = [this.compile(then), this.compile(otherwise)]
    if (!isCompatible(yes.type, no.type))
      this.fail(node, `the branches have the types ${nameOf(yes.type)} and ${nameOf(no.type)}`)
    return {
      type: joined(yes.type, no.type),
      run: frame => (condition(frame) ? yes.run(frame) : no.run(frame)),
    }
  }

  /** As in CEL, an operand that decides the result absorbs an error of the other one. */
  #logical(decisive: boolean, [left, right]: readonly [ASTNode, ASTNode]): Compiled {
    const [first, second] = [this.condition(left), this.condition(right)]
    return {
      type: bool,
      run: frame => {
        let failure: unknown
        try {
          if (first(frame) === decisive) return decisive
        } catch (error) {
          if (!(error instanceof CelEvaluationError)) throw error
          frame.budget.spend(stepCosts.error)
          failure = error
        }
        if (second(frame) === decisive) return decisive
        if (failure !== undefined) throw failure
        return !decisive
      },
    }
  }

  #equality(node: ASTNode, wanted: boolean, [left, right]: readonly [ASTNode, ASTNode]): Compiled {
    const [a, b] = [this.compile(left), this.compile(right)]
    if (!isCompatible(a.type, b.type))
      this.fail(node, `no overload of ${node.op} for (${nameOf(a.type)}, ${nameOf(b.type)})`)
    return { type: bool, run: frame => equals(a.run(frame), b.run(frame), frame.budget) === wanted }
  }

  condition(node: ASTNode): (frame: Frame) => boolean {
    const { type, run } = this.compile(node)
    if (!isCompatible(type, bool)) this.fail(node, `must be a bool, is of type ${nameOf(type)}`)
    return frame => truthOf(run(frame))
  }
}
