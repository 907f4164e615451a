export const checkDefaults = Object.freeze({
  /** Findings that are kept for the report. All are counted. */
  findings: 1_000,
  /** Reservations that are read together, below the limit of a transaction. */
  reservations: 120,
  /** Objects that are read together. Of the largest size, four such reads at once take 48 MB. */
  objects: 8,
  /** Such reads at once. */
  concurrency: 4,
})

/** Every problem that a check can find, and what to do about it. */
export const problems = Object.freeze({
  'malformed object': 'delete it through the API, or restore a backup',
  'object that cannot be decrypted':
    'give --encryption-provider-config with its key, or delete it as an object whose key is lost',
  'object stored in the clear':
    'it is readable, do not delete it: run setpoint reencrypt with a --encryption-provider-config that also has the provider identity',
  'object past a bound': 'it can be read, deleted and made smaller; other writes are refused',
  'object in no namespace':
    'create the namespace and delete the object, or purge its group if its plugin is uninstalled',
  'object in another scope': 'restore a backup, or purge its group',
  'object in an unrecorded version':
    'start a server with the plugin, which records the version or says that it cannot read it',
  'kind without a record': 'start a server with its plugin, or purge its group if it is uninstalled',
  'malformed record': 'start a server with its plugin, which writes it again',
  'missing reservation': '--repair reserves the value for the object',
  'value held twice': 'give one of the objects another value',
  'orphaned reservation': '--repair removes it; until then, the next object with the value takes it',
  'malformed reservation': '--repair removes it',
  'orphaned migration': '--repair removes it',
  'malformed signing keys':
    'tokens of service accounts are refused: restore a backup, or let --repair --drop-signing-keys remove them, which makes every token issued so far invalid',
  'signing keys that cannot be decrypted':
    'give --encryption-provider-config with their key, or if it is lost for ever, let --repair --drop-signing-keys remove them, which makes every token of a service account issued so far invalid',
  'signing keys stored in the clear':
    'they are readable, do not remove them: run setpoint reencrypt with a --encryption-provider-config that also has the provider identity',
  'unknown key': 'find out which program has written it; Setpoint does not use it',
})

export type Problem = keyof typeof problems

export interface Finding {
  readonly problem: Problem
  /** The key in the store. */
  readonly key: string
  readonly message: string
  readonly repaired: boolean
}

/** What a check has seen and found. It is the document of `setpoint check --output json`. */
export interface CheckReport {
  /** The revision of the store when the check ended. */
  readonly revision: number
  readonly objects: number
  readonly reservations: number
  /** Kinds that have objects or a record. */
  readonly kinds: number
  /** Problems that are left. */
  readonly problems: number
  readonly repaired: number
  /** The number of findings of each problem. */
  readonly counts: Readonly<Partial<Record<Problem, number>>>
  /** The first ones. */
  readonly findings: readonly Finding[]
}

/** Collects what is found, in bounded memory. */
export class Findings {
  readonly #found: (finding: Finding) => void
  readonly #kept: Finding[] = []
  readonly #counts: Partial<Record<Problem, number>> = {}
  #repaired = 0
  #total = 0

  /** @param found called with each of the first findings */
  constructor(found: (finding: Finding) => void) {
    this.#found = found
  }

  add(problem: Problem, key: string, message: string, repaired = false): void {
    this.#total++
    if (repaired) this.#repaired++
    this.#counts[problem] = (this.#counts[problem] ?? 0) + 1
    if (this.#kept.length >= checkDefaults.findings) return
    const finding = { problem, key, message, repaired }
    this.#kept.push(finding)
    this.#found(finding)
  }

  get summary(): Pick<CheckReport, 'problems' | 'repaired' | 'counts' | 'findings'> {
    return {
      problems: this.#total - this.#repaired,
      repaired: this.#repaired,
      counts: this.#counts,
      findings: this.#kept,
    }
  }
}
