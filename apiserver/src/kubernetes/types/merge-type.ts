import type { MergeField, MergeType } from '../../registry/index.ts'
import type { GoField, GoStructs } from './go-type.ts'

/** How strategic merges treat the fields of structs. */
export class MergeTypes {
  readonly #structs: GoStructs
  readonly #made = new Map<string, MergeType>()

  constructor(structs: GoStructs) {
    this.#structs = structs
  }

  of(struct: string): MergeType {
    const known = this.#made.get(struct)
    if (known !== undefined) return known
    const fields = new Map(this.#fieldsOf(struct).map(field => [field.name, field]))
    const type: MergeType = name => {
      const field = fields.get(name)
      return field && this.#field(field)
    }
    this.#made.set(struct, type)
    return type
  }

  #fieldsOf(struct: string): readonly GoField[] {
    const fields = this.#structs[struct] ?? []
    return fields.flatMap(field => (field.form === 'inline' ? this.#fieldsOf(field.type) : [field]))
  }

  #field({ form, type, strategy = [], mergeKey }: GoField): MergeField {
    return {
      ...(strategy.includes('merge') && { strategy: 'merge' }),
      ...(strategy.includes('replace') && { strategy: 'replace' }),
      mergeKey,
      // Kubernetes does not look into maps of structs either.
      ...(form !== 'map' && Object.hasOwn(this.#structs, type) && { type: this.of(type) }),
    }
  }
}
