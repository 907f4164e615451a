import type { ServedVersion } from '../../model/index.ts'
import type { AdmissionAttributes } from './attributes.ts'
import { loadCel } from './cel-environment.ts'
import { forbiddenWrite } from './denial.ts'
import { type EvaluationSources, variablesOf } from './evaluation.ts'
import { subjectOf } from './rules.ts'
import { isSelected, versionFor } from './selection.ts'
import type { Webhook } from './webhook.ts'

/** Decides which webhooks are called about a write. */
export class WebhookMatcher {
  readonly #sources: EvaluationSources

  constructor(sources: EvaluationSources) {
    this.#sources = sources
  }

  /**
   * Returns the version in which a webhook is shown a write, or undefined if the webhook is not called.
   * @throws AdmissionError 403 if the match conditions cannot tell and failures are not ignored
   */
  async versionFor(webhook: Webhook, attributes: AdmissionAttributes): Promise<ServedVersion | undefined> {
    const { selection, conditions, ignoresFailures } = webhook
    const version = versionFor(selection, subjectOf(attributes), attributes.versions)
    if (version === undefined) return undefined
    if (!(await isSelected(selection, attributes, this.#sources.namespaces))) return undefined
    if (conditions.isEmpty) return version
    await loadCel()
    const match = conditions.evaluate(await variablesOf(attributes, version, this.#sources))
    if (match === 'yes') return version
    if (match === 'no' || ignoresFailures) return undefined
    throw forbiddenWrite(attributes, match.problem)
  }
}
