import { ServedModel } from '../model/index.ts'
import { namespaceModel, namespaceRules } from './namespace-kind.ts'

/** The built-in kinds of a server. */
export interface BuiltInKinds {
  readonly namespaces: ServedModel
  readonly all: readonly ServedModel[]
}

/** Returns the built-in kinds, not served yet. A further kind is declared as these are. */
export function builtInKinds(): BuiltInKinds {
  const namespaces = ServedModel.builtIn(namespaceModel, { rules: namespaceRules })
  return { namespaces, all: [namespaces] }
}
