import { type IndexSpec, multiValueIndex, singleValueIndex } from './index-spec.ts'
import type { ObjectMeta } from './object.ts'

/** What the indexes of every model need of an object. */
type Indexed = {
  readonly metadata: Pick<
    ObjectMeta,
    'name' | 'namespace' | 'creationTimestamp' | 'deletionTimestamp' | 'labels'
  >
}

const ofEveryModel: readonly IndexSpec<Indexed>[] = Object.freeze([
  singleValueIndex<Indexed>({
    name: 'metadata.name',
    unique: true,
    indexFunc: ({ metadata }) => metadata.name,
  })(),
  singleValueIndex<Indexed>({
    name: 'metadata.creationTimestamp',
    indexFunc: ({ metadata }) => metadata.creationTimestamp,
  })(),
  singleValueIndex<Indexed>({
    name: 'metadata.deletionTimestamp',
    indexFunc: ({ metadata }) => metadata.deletionTimestamp,
  })(),
  multiValueIndex<Indexed>({
    name: 'metadata.labels',
    indexFunc: ({ metadata: { labels = {} } }) => Object.keys(labels).map(key => `${key}=${labels[key]}`),
  })(),
])

const ofNamespacedModels: readonly IndexSpec<Indexed>[] = Object.freeze([
  ...ofEveryModel,
  singleValueIndex<Indexed>({
    name: 'metadata.namespace',
    indexFunc: ({ metadata }) => metadata.namespace,
  })(),
])

/** The names of the indexes of every model. */
export const defaultIndexNames: readonly string[] = Object.freeze(ofEveryModel.map(({ name }) => name))

/** Returns the indexes that a model has without declaring them. */
export function defaultIndexes(scope: 'Cluster' | 'Namespaced' | undefined): readonly IndexSpec<Indexed>[] {
  return scope === 'Namespaced' ? ofNamespacedModels : ofEveryModel
}
