import { type CelModule, type CelType, importCel, type Program } from '../../model/index.ts'

export const expressionDefaults = Object.freeze({
  /** Characters of an expression: the bound of Kubernetes' parser. */
  length: 100_000,
})

/** The variables of CEL expressions in policies and webhooks, as in Kubernetes. */

const text: CelType = { kind: 'string' }
const dyn: CelType = { kind: 'dyn' }
const texts: CelType = { kind: 'list', item: text }
const time: CelType = { kind: 'timestamp' }
const objectOf = (fields: Readonly<Record<string, CelType>>): CelType => ({
  kind: 'object',
  fields: new Map(Object.entries(fields)),
})
const mapOf = (value: CelType): CelType => ({ kind: 'map', value })

const kindType = objectOf({ group: text, version: text, kind: text })
const resourceType = objectOf({ group: text, version: text, resource: text })

/** The request for the admission. Its object and the old one are variables of their own. */
const requestType = objectOf({
  kind: kindType,
  resource: resourceType,
  subResource: text,
  requestKind: kindType,
  requestResource: resourceType,
  requestSubResource: text,
  name: text,
  namespace: text,
  operation: text,
  userInfo: objectOf({ username: text, uid: text, groups: texts, extra: mapOf(texts) }),
  dryRun: { kind: 'bool' },
  options: dyn,
})

const namespaceType = objectOf({
  metadata: objectOf({
    name: text,
    generateName: text,
    namespace: text,
    labels: mapOf(text),
    annotations: mapOf(text),
    UID: text,
    creationTimestamp: time,
    deletionGracePeriodSeconds: { kind: 'int' },
    deletionTimestamp: time,
    generation: { kind: 'int' },
    resourceVersion: text,
    finalizers: texts,
  }),
  spec: objectOf({ finalizers: texts }),
  status: objectOf({
    conditions: {
      kind: 'list',
      item: objectOf({ status: text, type: text, lastTransitionTime: time, message: text, reason: text }),
    },
    phase: text,
  }),
})

/** What an expression can use. */
export interface ExpressionScope {
  readonly hasParams: boolean
  readonly hasAuthorizer: boolean
  /** The types of the policy's own variables so far. Undefined where there are none. */
  readonly variables?: ReadonlyMap<string, CelType>
}

function variablesIn({ hasParams, hasAuthorizer, variables }: ExpressionScope): Map<string, CelType> {
  const found = new Map<string, CelType>([
    ['object', dyn],
    ['oldObject', dyn],
    ['request', requestType],
    ['namespaceObject', namespaceType],
  ])
  if (hasParams) found.set('params', dyn)
  if (hasAuthorizer) found.set('authorizer', { kind: 'authorizer' })
  if (variables !== undefined) found.set('variables', { kind: 'object', fields: variables })
  return found
}

let loaded: CelModule | undefined

/** Loads the engine of CEL. To be awaited once before the other functions are called. */
export async function loadCel(): Promise<void> {
  loaded ??= await importCel()
}

/** Returns the engine of CEL. @throws Error before `loadCel` */
export function cel(): CelModule {
  if (loaded === undefined) throw new Error('an expression was compiled before loadCel')
  return loaded
}

/**
 * Compiles an expression.
 * @param results the types that it may have. Default: any
 * @throws CelCompileError
 */
export function compileExpression(
  expression: string,
  scope: ExpressionScope,
  results?: readonly CelType['kind'][],
): Program {
  const { compileCel, CelCompileError, nameOf } = cel()
  const program = compileCel(expression, variablesIn(scope), expressionDefaults.length)
  // As in Kubernetes, a dynamic value is none of them.
  if (results !== undefined && !results.includes(program.type.kind))
    throw new CelCompileError(`must evaluate to ${results.join(' or ')} but got ${nameOf(program.type)}`)
  return program
}

/** Returns why an expression does not compile, or undefined if it does. */
export function problemOfExpression(
  expression: string,
  scope: ExpressionScope,
  results: readonly CelType['kind'][],
): string | undefined {
  try {
    compileExpression(expression, scope, results)
    return undefined
  } catch (error) {
    if (!(error instanceof cel().CelCompileError)) throw error
    return error.message
  }
}
