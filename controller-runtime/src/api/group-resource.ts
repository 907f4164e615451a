import type { Model } from './model.ts'

/**
 * Returns `<plural>.<group>`, or only `<plural>` for Kubernetes' core group, as apimachinery's `GroupResource.String`.
 */
export function groupResource({ plural, group }: Pick<Model, 'plural' | 'group'>): string {
  return group === '' ? plural : `${plural}.${group}`
}
