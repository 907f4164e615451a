import type { Schema } from '@setpoint/controller-runtime'
import type { StatusCause } from '@setpoint/controller-runtime/api'
import type { HostedPlugin } from '@setpoint/controller-runtime/internal'
import { compileSchemas, formatPath, loadRules, objectLimits } from '../model/index.ts'

/** Loads what the rules in the schemas of a plugin's actions need, before they are mounted. */
export async function loadActionRules({ actions }: HostedPlugin): Promise<void> {
  await loadRules(actions.map(({ action: { input, output = {} } }) => ({ schema: { input, output } })))
}

/** The schema of an action's input or output, and a value with its defaults that has been checked against it. */
export class ActionSchema {
  readonly #schemas: ReturnType<typeof compileSchemas>

  /**
   * @param isSensitive true if violations must not repeat values
   * @throws ModelError if the schema leaves the dialect
   */
  constructor(schema: Schema, isSensitive: boolean) {
    this.#schemas = compileSchemas({ value: schema }, { isSensitive })
  }

  /** Returns the value with its defaults, and its violations. */
  read(given: unknown): { readonly value: unknown; readonly causes: readonly StatusCause[] } {
    const subject = this.#schemas.withDefaults({ value: given })
    const broken = this.#schemas.validate(subject)
    const violations =
      broken.length > 0 ? broken : (this.#schemas.rules?.validate(subject, undefined).state ?? [])
    const causes = violations
      .slice(0, objectLimits.violations)
      .map(({ path, reason, message }) => ({ field: formatPath(path.slice(1)), reason, message }))
    return { value: subject.value, causes }
  }
}

/** Returns the first few violations as one text. */
export function textOfCauses(causes: readonly StatusCause[]): string {
  return causes
    .slice(0, 8)
    .map(({ field, message }) => (field ? `${field}: ${message}` : message))
    .join('; ')
}
