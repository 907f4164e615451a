import type { ModelHooks } from './hooks.ts'
import { type IndexDeclaration, type IndexSpec, isIndexDeclaration } from './index-spec.ts'
import { freezeModel, type Model, type ModelParts } from './model.ts'
import type { ContentSchema, ModelVersion } from './model-version.ts'
import type { ApiObject, ObjectInput } from './object.ts'
import type { FromSchema } from './schema.ts'

/** The type of the objects of a built-in kind. Top-level fields besides `spec` are optional, and `spec` for writers. */
export type BuiltInObject<S extends ContentSchema> = ApiObject<
  FieldOf<S, 'spec'>,
  FieldOf<S, 'status'>,
  ObjectInput<FieldOf<S, 'spec'> | undefined, FieldOf<S, 'status'>>
> & {
  [K in Exclude<keyof S, 'spec' | 'status'>]?: FieldOf<S, K>
}

type FieldOf<S extends ContentSchema, K extends keyof S> = S extends { readonly [F in K]: infer Field }
  ? FromSchema<Field>
  : undefined

/** The declaration of a built-in kind. */
export interface BuiltInDeclaration<S extends ContentSchema>
  extends ModelHooks<BuiltInObject<NoInfer<S>>>,
    Omit<ModelParts<BuiltInObject<NoInfer<S>>>, 'indexes'> {
  /** Any top-level fields. Only objects of a kind with a `spec` have one. */
  readonly schema: S
  /** Versions in other groups. */
  readonly versions?: readonly ModelVersion[]
  readonly indexes?: readonly (
    | IndexDeclaration<BuiltInObject<NoInfer<S>>>
    | IndexSpec<BuiltInObject<NoInfer<S>>>
  )[]
}

/**
 * Declares a kind of Kubernetes that the server has built in. Unlike `defineModel`, it allows any top-level fields, and
 * checks nothing: the declarations are part of the program.
 */
export function defineBuiltInModel<const S extends ContentSchema>(
  declaration: BuiltInDeclaration<S>,
): Model<BuiltInObject<S>> {
  const indexes = (declaration.indexes ?? []).map(index => (isIndexDeclaration(index) ? index() : index))
  return freezeModel({ ...declaration, schema: declaration.schema, indexes })
}
