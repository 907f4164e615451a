import { admissionDifferences } from './support/definition-differences.ts'
import { describeExactReplays } from './support/exact-replays.ts'

describeExactReplays(['admission-objects', 'admission-policies', 'admission-webhooks'], admissionDifferences)
