/**
 * The rules for names, labels and annotations: the specification's sections 2.1, 2.3 and 2.4, and the Kubernetes
 * rule for label values. Each check answers a sentence that says what is wrong, or undefined.
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

/** What is wrong with the name of an object, or undefined. */
export function checkName(name: string): string | undefined {
  if (name.length > nameLimits.name) return `must be at most ${nameLimits.name} characters, is ${name.length}`
  if (!dnsLabel.test(name)) {
    return "must consist of lowercase letters, digits and '-', and start and end with a letter or digit"
  }
  return undefined
}

/** What is wrong with a DNS sub-domain, or undefined. */
export function checkSubdomain(name: string): string | undefined {
  if (name.length > nameLimits.name) return `must be at most ${nameLimits.name} characters, is ${name.length}`
  if (!dnsSubdomain.test(name)) {
    return "must be a DNS sub-domain: lowercase letters, digits, '-' and '.', each part starting and ending with a letter or digit"
  }
  return undefined
}

/** A lowercase DNS label of at most 63 characters: a version, a plural or a singular. */
export function checkDnsLabel(name: string): string | undefined {
  if (name.length > nameLimits.label)
    return `must be at most ${nameLimits.label} characters, is ${name.length}`
  if (!dnsLabel.test(name)) {
    return "must consist of lowercase letters, digits and '-', and start and end with a letter or digit"
  }
  return undefined
}

/** What is wrong with the key of a label, or undefined. */
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

/** The prefix of a label key, or undefined where it has none. */
export function labelPrefix(key: string): string | undefined {
  const slash = key.indexOf('/')
  return slash < 0 ? undefined : key.slice(0, slash)
}

/** What is wrong with the value of a label, or undefined. */
export function checkLabelValue(value: string): string | undefined {
  if (value.length > nameLimits.label) {
    return `label value must be at most ${nameLimits.label} characters, is ${value.length}`
  }
  if (value !== '' && !qualifiedPart.test(value)) {
    return "label value must be empty or consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
  }
  return undefined
}

/** Whether `domain` is the reserved one or under it. The empty group counts as reserved too. */
export function isReservedDomain(domain: string, reservedDomain: string): boolean {
  return domain === '' || domain === reservedDomain || domain.endsWith(`.${reservedDomain}`)
}
