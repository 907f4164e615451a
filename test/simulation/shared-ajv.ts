import { type AnySchema, type Options, Ajv as RealAjv, type ValidateFunction } from 'ajv'

export { _, Name } from 'ajv'

/** By the options, the keywords and the schema. A validator has no state that outlives a call. */
const validators = new Map<string, ValidateFunction>()

/**
 * Stands for ajv in the servers of the simulation. All servers of all worlds have the same few schemas, and to compile them
 * for each took a tenth of the time.
 */
export class Ajv extends RealAjv {
  constructor(options: Options) {
    super(options)
    const compileAnew = (schema: AnySchema): ValidateFunction => super.compile(schema)
    const compile = (schema: AnySchema): ValidateFunction => {
      const key = JSON.stringify([options.allErrors, Object.keys(this.RULES.keywords), schema])
      const validator = validators.get(key) ?? compileAnew(schema)
      validators.set(key, validator)
      return validator
    }
    Object.assign(this, { compile })
  }
}
