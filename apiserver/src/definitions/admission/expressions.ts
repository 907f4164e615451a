import type { CelType } from '../../model/index.ts'
import { cel, compileExpression, type ExpressionScope } from './cel-environment.ts'
import type { Expression } from './evaluation.ts'

/** Compiles an expression that was accepted before. If it does not compile all the same, each evaluation says so. */
export function compile(
  expression: string,
  scope: ExpressionScope,
  results?: readonly CelType['kind'][],
): Expression {
  try {
    return { expression, program: compileExpression(expression, scope, results) }
  } catch (error) {
    if (!(error instanceof cel().CelCompileError)) throw error
    return { expression, problem: error.message }
  }
}
