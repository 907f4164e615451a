import { isRecord } from '@setpoint/controller-runtime/api'
import type { BareObject } from '../../model/index.ts'

/** The finalizer under which the objects of a definition are deleted. */
export const cleanupFinalizer = 'customresourcecleanup.apiextensions.k8s.io'

const pending = {
  type: 'Terminating',
  status: 'True',
  reason: 'InstanceDeletionPending',
  message: 'CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon',
}

/** Marks a definition whose deletion starts: it stays until its objects are gone (`customresourcedefinition/etcd.go`). */
export function beginDeletion(draft: BareObject): void {
  const { metadata } = draft
  const { finalizers = [], deletionTimestamp = '', generation = 1 } = metadata
  draft.metadata = {
    ...metadata,
    // Unlike other deletions, this one does not count as a change.
    generation: generation - 1,
    finalizers: finalizers.includes(cleanupFinalizer) ? finalizers : [...finalizers, cleanupFinalizer],
  }
  const status = isRecord(draft.status) ? draft.status : {}
  const conditions = Array.isArray(status.conditions) ? status.conditions : []
  const lastTransitionTime = `${deletionTimestamp.slice(0, 19)}Z`
  draft.status = { ...status, conditions: [...conditions, { ...pending, lastTransitionTime }] }
}
