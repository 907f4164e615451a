import type { Findings } from '../../findings.ts'
import { checkSimplePath } from './columns.ts'
import type { Subresources } from './definition.ts'

/** Checks the paths of the subresource scale. */
export function checkSubresources({ scale }: Subresources, place: string, found: Findings): void {
  if (scale === undefined) return
  const check = (field: keyof typeof scale, path: string, parents: readonly string[]) => {
    const at = `${place}.scale.${field}`
    if (!checkSimplePath(path, at, found)) return
    if (!parents.some(parent => path.startsWith(`.${parent}.`)))
      found.invalid(at, `must be a JSONPath under ${parents.map(parent => `.${parent}`).join(' or ')}`)
  }
  const { specReplicasPath, statusReplicasPath, labelSelectorPath = '' } = scale
  if (specReplicasPath === '') found.required(`${place}.scale.specReplicasPath`)
  else check('specReplicasPath', specReplicasPath, ['spec'])
  if (statusReplicasPath === '') found.required(`${place}.scale.statusReplicasPath`)
  else check('statusReplicasPath', statusReplicasPath, ['status'])
  if (labelSelectorPath !== '') check('labelSelectorPath', labelSelectorPath, ['spec', 'status'])
}
