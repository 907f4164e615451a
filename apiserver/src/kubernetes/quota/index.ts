/**
 * What a namespace may hold: the limits of its ResourceQuotas, and those that every namespace has for its roles.
 *
 * - A write that would exceed a limit is refused, and what is there stays: it can be read, shrink and be deleted.
 * - A check costs the same however many objects there are: the caches count them for each namespace.
 * - A refusal rests on caches that have all acknowledged writes. Writes that are under way on this server count, too.
 */
export { type Bound, BoundedNamespaces, type BoundSource, type Measure } from './bounded-namespaces.ts'
export { QuotaBounds } from './quota-bounds.ts'
export { QuotaStatus, quotaStatusDefaults } from './quota-status.ts'
export { QuotaUsage } from './quota-usage.ts'
