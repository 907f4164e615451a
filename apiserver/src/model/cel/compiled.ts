import type { ASTNode } from '@marcbachmann/cel-js'
import type { Budget } from './budget.ts'
import type { CelType } from './types.ts'
import type { CelValue } from './values.ts'

/** The variables of one evaluation, by slot. */
export interface Frame {
  readonly slots: CelValue[]
  readonly budget: Budget
}

/** A compiled expression or a part of one. */
export interface Compiled {
  readonly type: CelType
  readonly run: (frame: Frame) => CelValue
}

/** The parts of the compiler that macros need. */
export interface MacroCompiler {
  compile(node: ASTNode): Compiled
  /** Compiles a node with one more variable in scope, whose slot is returned. */
  compileWith(name: string, type: CelType, node: ASTNode): Compiled & { readonly slot: number }
  /** The same for two variables. */
  compileWithPair(
    first: readonly [name: string, type: CelType],
    second: readonly [name: string, type: CelType],
    node: ASTNode,
  ): Compiled & { readonly slots: readonly [number, number] }
  fail(node: ASTNode, message: string): never
}
