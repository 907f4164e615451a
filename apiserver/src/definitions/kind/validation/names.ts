import { checkSubdomain } from '@setpoint/controller-runtime/api'
import type { Findings } from '../../findings.ts'
import { problemOfLabel } from '../../label.ts'
import type { DefinitionNames, DefinitionSpec } from './definition.ts'

/** Checks the names of the kind, its group and its scope, in themselves. */
export function checkSpecNames({ group, scope, names }: DefinitionSpec, found: Findings): void {
  if (group === '') found.required('spec.group')
  else {
    const problem = checkSubdomain(group)
    if (problem !== undefined) found.invalid('spec.group', problem)
    else if (!group.includes('.')) found.invalid('spec.group', 'should be a domain with at least one dot')
  }
  if (scope === '') found.required('spec.scope')
  else if (!scopes.includes(scope)) found.unsupported('spec.scope', scope, scopes)
  for (const field of ['plural', 'singular', 'kind', 'listKind'] as const)
    if (!names[field]) found.required(`spec.names.${field}`)
  checkNames(names, 'spec.names', found)
}

const scopes = ['Cluster', 'Namespaced']

/** Checks the names that are given. */
export function checkNames(names: DefinitionNames, place: string, found: Findings): void {
  const { plural, singular = '', kind, listKind = '', shortNames = [], categories = [] } = names
  const check = (field: string, text: string, prefix = '') => {
    const problem = problemOfLabel(text)
    if (problem !== undefined) found.invalid(`${place}.${field}`, prefix + problem)
  }
  const mixed = 'may have mixed case, but otherwise '
  if (plural !== '') check('plural', plural)
  if (singular !== '') check('singular', singular)
  if (kind !== '') check('kind', kind.toLowerCase(), mixed)
  if (listKind !== '') check('listKind', listKind.toLowerCase(), mixed)
  for (const [at, name] of shortNames.entries()) check(`shortNames[${at}]`, name)
  if (kind !== '' && kind === listKind)
    found.invalid(`${place}.listKind`, 'must not be the same as kind, because then lists look like objects')
  for (const [at, category] of categories.entries()) check(`categories[${at}]`, category)
}

/** Checks the name of a new definition, which is that of its kind. */
export function checkMetadataName(
  name: string,
  { group, names: { plural } }: DefinitionSpec,
  found: Findings,
): void {
  const problem = checkSubdomain(name)
  if (problem !== undefined) found.invalid('metadata.name', problem)
  if (name !== `${plural}.${group}`)
    found.invalid('metadata.name', 'must be spec.names.plural+"."+spec.group')
}

/**
 * Checks what cannot change: what the name of the definition consists of, and, once the kind is served, what its objects are
 * stored by.
 */
export function checkUnchanged(
  next: DefinitionSpec,
  previous: DefinitionSpec,
  isEstablished: boolean,
  found: Findings,
): void {
  const check = (field: string, given: string, stored: string) => {
    if (given !== stored) found.invalid(field, `field is immutable, it is ${JSON.stringify(stored)}`)
  }
  if (isEstablished) {
    check('spec.scope', next.scope, previous.scope)
    check('spec.names.kind', next.names.kind, previous.names.kind)
  }
  check('spec.group', next.group, previous.group)
  check('spec.names.plural', next.names.plural, previous.names.plural)
}

const approvalAnnotation = 'api-approved.kubernetes.io'

type Annotations = Readonly<Record<string, string>> | undefined

/**
 * Checks that a kind in a group of the Kubernetes community names the approval of its API. A write that leaves this as it was is
 * not refused.
 */
export function checkApproval(
  { group }: DefinitionSpec,
  annotations: Annotations,
  previous: { readonly annotations: Annotations } | undefined,
  found: Findings,
): void {
  if (!/(?:^|\.)(?:k8s|kubernetes)\.io$/.test(group)) return
  const state = approvalOf(annotations)
  if (previous !== undefined && approvalOf(previous.annotations) === state) return
  const place = `metadata.annotations[${approvalAnnotation}]`
  if (state === 'missing')
    found.required(
      place,
      'is required for kinds in groups of the Kubernetes community (k8s.io, kubernetes.io)',
    )
  if (state === 'invalid')
    found.invalid(place, 'must be the URL of the approval, or a reason that starts with "unapproved"')
}

function approvalOf(annotations: Annotations): 'missing' | 'bypassed' | 'approved' | 'invalid' {
  const text = annotations?.[approvalAnnotation] ?? ''
  if (text === '') return 'missing'
  if (text.startsWith('unapproved')) return 'bypassed'
  return /^[A-Za-z][A-Za-z0-9+.-]*:\/\/[^/?#\s]/.test(text) && URL.canParse(text) ? 'approved' : 'invalid'
}
