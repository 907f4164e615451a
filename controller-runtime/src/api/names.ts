/**
 * The rules for names, labels and annotations. Label values follow Kubernetes. Each check returns the problem as a
 * clause, or undefined.
 */

const dnsLabel = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const dnsSubdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const qualifiedPart = /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/

export const nameLimits = Object.freeze({
  /** Characters of metadata.name, a label prefix, a group or a finalizer. */
  name: 253,
  /** Characters of a label's name part, a label value, or a kind. */
  label: 63,
  /** Bytes of all annotation keys and values of one object. */
  annotationBytes: 256 * 1024,
})

/**
 * The rule for the names of a kind's objects: a lowercase DNS label, of up to 253 characters, or such labels joined by
 * dots. Built-in kinds may also take names such as `system:viewer`.
 */
export type ObjectNames = 'dns-label' | 'dns-subdomain' | 'path-segment'

const pathSegment = /^[-A-Za-z0-9_.:@+=,~*]+$/

/** Checks the name of an object. */
export function checkName(name: string, rule: ObjectNames = 'dns-label'): string | undefined {
  if (rule === 'dns-subdomain') return checkSubdomain(name)
  if (rule === 'path-segment') return checkPathSegment(name)
  if (name.length > nameLimits.name) return `must be at most ${nameLimits.name} characters, is ${name.length}`
  if (!dnsLabel.test(name)) {
    return "must consist of lowercase letters, digits and '-', and start and end with a letter or digit"
  }
  return undefined
}

/** Kubernetes allows all but '/' and '%'; these characters are those in use. */
function checkPathSegment(name: string): string | undefined {
  if (name.length > nameLimits.name) return `must be at most ${nameLimits.name} characters, is ${name.length}`
  if (name === '.' || name === '..') return "must not be '.' or '..'"
  return pathSegment.test(name) ? undefined : "must consist of letters, digits and '-_.:@+=,~*'"
}

/** Checks a DNS subdomain. */
export function checkSubdomain(name: string): string | undefined {
  if (name.length > nameLimits.name) return `must be at most ${nameLimits.name} characters, is ${name.length}`
  if (!dnsSubdomain.test(name)) {
    return "must be a DNS sub-domain: lowercase letters, digits, '-' and '.', each part starting and ending with a letter or digit"
  }
  return undefined
}

/** Checks a version, a plural or a singular: a lowercase DNS label of at most 63 characters. */
export function checkDnsLabel(name: string): string | undefined {
  if (name.length > nameLimits.label)
    return `must be at most ${nameLimits.label} characters, is ${name.length}`
  if (!dnsLabel.test(name)) {
    return "must consist of lowercase letters, digits and '-', and start and end with a letter or digit"
  }
  return undefined
}

/** Checks the key of a label. */
export function checkLabelKey(key: string): string | undefined {
  const parts = key.split('/')
  if (parts.length > 2)
    return `label key has ${parts.length - 1} slashes, at most one is allowed: <prefix>/<name>`
  const name = parts[parts.length - 1] ?? ''
  if (parts.length === 2) {
    const problem = checkSubdomain(parts[0] ?? '')
    if (problem !== undefined) return `label key prefix ${problem}`
  }
  if (name.length > nameLimits.label) {
    return `label key name must be at most ${nameLimits.label} characters, is ${name.length}`
  }
  if (!qualifiedPart.test(name)) {
    return "label key name must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
  }
  return undefined
}

/** Returns the prefix of a label key, or undefined if it has no prefix. */
export function labelPrefix(key: string): string | undefined {
  const slash = key.indexOf('/')
  return slash < 0 ? undefined : key.slice(0, slash)
}

/** Checks the value of a label. */
export function checkLabelValue(value: string): string | undefined {
  if (value.length > nameLimits.label) {
    return `label value must be at most ${nameLimits.label} characters, is ${value.length}`
  }
  if (value !== '' && !qualifiedPart.test(value)) {
    return "label value must be empty or consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
  }
  return undefined
}

/** Returns true if plugins may declare nothing in an API group: the groups of the server, and those of Kubernetes. */
export function isReservedGroup(group: string, reservedDomain: string): boolean {
  return isReservedDomain(group, reservedDomain) || group === 'k8s.io' || group.endsWith('.k8s.io')
}

/** Returns true if `domain` is the reserved domain or a subdomain of it, or empty. */
export function isReservedDomain(domain: string, reservedDomain: string): boolean {
  return domain === '' || domain === reservedDomain || domain.endsWith(`.${reservedDomain}`)
}
