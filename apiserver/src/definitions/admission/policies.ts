import { type Fields, recordOf, textOf, textsOf } from '../../kubernetes/index.ts'
import { ConversionError, converting, type ServedVersion } from '../../model/index.ts'
import { nextTurn, type WriteNotes } from '../../registry/index.ts'
import type { AdmissionAttributes } from './attributes.ts'
import { loadCel } from './cel-environment.ts'
import { celOf } from './cel-values.ts'
import { CompiledPolicy, isIgnoring, type PolicyResult, policyDefaults } from './compiled-policy.ts'
import { forbiddenWrite } from './denial.ts'
import { type EvaluationSources, type Variables, variablesOf } from './evaluation.ts'
import {
  ConfigurationError,
  type ParamKind,
  type ParamSource,
  paramKindOf,
  paramsOf,
} from './policy-params.ts'
import { type RuleSubject, readRules } from './rules.ts'
import { isSelected, readSelection, type Selection, versionFor } from './selection.ts'

/** A binding of a policy. */
export interface Binding {
  readonly name: string
  readonly selection: Selection | undefined
  readonly paramRef: Fields | undefined
  readonly actions: readonly string[]
}

export function readBinding(name: string, spec: Fields): Binding & { readonly policyName: string } {
  const { matchResources, paramRef } = spec
  return {
    name,
    policyName: textOf(spec.policyName),
    selection: matchResources === undefined ? undefined : readMatch(recordOf(matchResources)),
    paramRef: paramRef === undefined ? undefined : recordOf(paramRef),
    actions: textsOf(spec.validationActions),
  }
}

/** Without rules, everything matches. */
function readMatch(match: Fields): Selection {
  const rules = readRules(match.resourceRules)
  return readSelection(match, rules.length === 0 ? undefined : rules, readRules(match.excludeResourceRules))
}

/** A policy, as its object says. */
export class Policy {
  readonly name: string
  readonly selection: Selection
  readonly paramKind: Fields | undefined
  readonly ignoresFailures: boolean
  readonly compiled: CompiledPolicy

  constructor(name: string, spec: Fields) {
    this.name = name
    this.selection = readMatch(recordOf(spec.matchConstraints))
    this.paramKind = spec.paramKind === undefined ? undefined : recordOf(spec.paramKind)
    this.ignoresFailures = isIgnoring(spec)
    this.compiled = new CompiledPolicy(spec)
  }
}

/** A policy in force, with its bindings. */
export interface BoundPolicy {
  readonly policy: Policy
  readonly bindings: readonly Binding[]
}

/** What a policy says of a write. */
interface Denial {
  readonly message: string
  readonly reason: string
}

/** Counts what policies decide. */
export interface PolicyObserver {
  decided(
    policy: string,
    binding: string,
    action: 'allow' | 'deny' | 'warn' | 'audit',
    isError: boolean,
  ): void
}

/** What the evaluation of policies needs. */
export interface PolicySources extends EvaluationSources {
  readonly params: ParamSource
  readonly observer: PolicyObserver
}

/** Asks policies about one write. The first denial refuses it, after all have been asked. */
export class PolicyReview {
  readonly #attributes: AdmissionAttributes
  readonly #subject: RuleSubject
  readonly #sources: PolicySources
  readonly #notes: WriteNotes | undefined
  readonly #denials: Denial[] = []
  readonly #variables = new Map<ServedVersion, Promise<Variables>>()

  constructor(attributes: AdmissionAttributes, subject: RuleSubject, sources: PolicySources) {
    this.#attributes = attributes
    this.#subject = subject
    this.#sources = sources
    this.#notes = attributes.request.options.notes
  }

  /** @throws AdmissionError */
  async ask(policies: readonly BoundPolicy[]): Promise<void> {
    await loadCel()
    for (const bound of policies) await this.#askOne(bound)
    const [first] = this.#denials
    if (first === undefined) return
    const { message, reason } = first
    throw forbiddenWrite(this.#attributes, message, reason || 'Invalid', [message])
  }

  async #askOne({ policy, bindings }: BoundPolicy): Promise<void> {
    const { versions } = this.#attributes
    const version = versionFor(policy.selection, this.#subject, versions)
    if (version === undefined || !(await this.#isSelected(policy.selection))) return
    const paramKind = paramKindOf(policy.paramKind, this.#sources.params)
    if (typeof paramKind === 'string') {
      this.#fail(policy, undefined, `failed to configure policy: ${paramKind}`)
      return
    }
    const annotations = new Map<string, Set<string>>()
    for (const binding of bindings) {
      try {
        if (!(await this.#isBound(binding))) continue
        await this.#askBound(policy, binding, version, paramKind, annotations)
      } catch (error) {
        if (!(error instanceof ConfigurationError) && !(error instanceof ConversionError)) throw error
        this.#fail(policy, binding, `failed to configure binding: ${error.message}`)
      }
    }
    for (const [key, values] of annotations)
      this.#notes?.annotate(`${policy.name}/${key}`, [...values].join(', '))
  }

  async #isBound({ selection }: Binding): Promise<boolean> {
    if (selection === undefined) return true
    const { versions } = this.#attributes
    return versionFor(selection, this.#subject, versions) !== undefined && this.#isSelected(selection)
  }

  #isSelected(selection: Selection): Promise<boolean> {
    return isSelected(selection, this.#attributes, this.#sources.namespaces)
  }

  async #askBound(
    policy: Policy,
    binding: Binding,
    version: ServedVersion,
    paramKind: ParamKind | undefined,
    annotations: Map<string, Set<string>>,
  ): Promise<void> {
    const { namespace, request } = this.#attributes
    const params = await converting(
      () => paramsOf(paramKind, binding.paramRef, namespace, this.#sources.params),
      request.options.signal,
    )
    for (const param of params) {
      const variables = await this.#variablesIn(version)
      this.#record(
        policy,
        binding,
        policy.compiled.evaluate({ ...variables, params: celOf(param) }),
        annotations,
      )
      // Each evaluation is bounded, but there may be many of them.
      await nextTurn()
    }
  }

  #variablesIn(version: ServedVersion): Promise<Variables> {
    let variables = this.#variables.get(version)
    if (variables === undefined) {
      variables = variablesOf(this.#attributes, version, this.#sources)
      this.#variables.set(version, variables)
    }
    return variables
  }

  #record(
    policy: Policy,
    binding: Binding,
    { decisions, annotations, failures, annotationFailures }: PolicyResult,
    collected: Map<string, Set<string>>,
  ): void {
    const { observer } = this.#sources
    for (const { index, message, reason, isError } of decisions) {
      if (isError && policy.ignoresFailures) {
        observer.decided(policy.name, binding.name, 'allow', true)
        continue
      }
      this.#act(policy, binding, { message, reason }, index, isError)
    }
    for (const failure of failures) this.#act(policy, binding, { message: failure, reason: '' }, 0, true)
    for (const failure of annotationFailures) this.#fail(policy, binding, failure)
    for (const { key, value } of annotations) {
      const values = collected.get(key) ?? new Set()
      collected.set(key, values.add(value.slice(0, policyDefaults.annotationLength)))
    }
  }

  #act(policy: Policy, binding: Binding, denial: Denial, index: number, isError: boolean): void {
    if (isError && policy.ignoresFailures) return
    const { observer } = this.#sources
    const { message } = denial
    const by = `ValidatingAdmissionPolicy '${policy.name}' with binding '${binding.name}'`
    if (binding.actions.includes('Deny')) {
      this.#denials.push({ ...denial, message: `${by} denied request: ${message}` })
      observer.decided(policy.name, binding.name, 'deny', isError)
    }
    if (binding.actions.includes('Warn')) {
      this.#notes?.warn(`Validation failed for ${by}: ${message}`)
      observer.decided(policy.name, binding.name, 'warn', isError)
    }
    if (binding.actions.includes('Audit')) {
      const failure = {
        message,
        policy: policy.name,
        binding: binding.name,
        expressionIndex: index,
        validationActions: binding.actions,
      }
      this.#notes?.annotate(
        'validation.policy.admission.k8s.io/validation_failure',
        JSON.stringify([failure]),
      )
      observer.decided(policy.name, binding.name, 'audit', isError)
    }
  }

  /** What cannot be evaluated at all denies the write whatever the actions of the binding are. */
  #fail(policy: Policy, binding: Binding | undefined, problem: string): void {
    if (policy.ignoresFailures) return
    const by = binding === undefined ? '' : ` with binding '${binding.name}'`
    const message = `ValidatingAdmissionPolicy '${policy.name}'${by} denied request: ${problem}`
    this.#denials.push({ message, reason: '' })
    this.#sources.observer.decided(policy.name, binding?.name ?? '', 'deny', true)
  }
}
