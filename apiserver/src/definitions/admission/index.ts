/**
 * Admission of writes, as the objects of `admissionregistration.k8s.io` configure it: mutating webhooks, policies and validating
 * webhooks, with Kubernetes' semantics.
 *
 * - A write that nothing concerns costs a comparison; with nothing configured, one question.
 * - Nothing refuses a write that only takes away finalizers, and nothing is asked about the writes of the server itself and about
 *   the objects that configure admission. So every mistake can be corrected.
 * - A write ends in time, whatever a webhook does. The evaluation of expressions is bounded.
 */
export { type AdmissionObserver, AdmissionRoom } from './admission-room.ts'
export { admissionDefaults } from './configured-admission.ts'
