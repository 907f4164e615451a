import { ApiError } from '@setpoint/controller-runtime/api'
import { quote, type ServedVersion } from '../model/index.ts'
import { type MetaVersion, metaGroup, type ObjectView } from './object-view.ts'
import { PartialMetadataView } from './partial-metadata.ts'
import { TableColumns } from './table-columns.ts'
import { type IncludeObject, includeObjectValues, TableView } from './table-view.ts'

/** The views of each version of a kind, by key. */
const views = new WeakMap<ServedVersion, Map<string, ObjectView>>()

/**
 * Returns the view that a clause of an Accept header asks for with `as`, `g` and `v`, or undefined for an unknown one.
 * @param ofList whether the response is a list
 * @throws ApiError 400 for an unknown `includeObject`
 */
export function findObjectView(
  version: ServedVersion,
  clause: ReadonlyMap<string, string>,
  ofList: boolean,
  query: URLSearchParams,
): ObjectView | undefined {
  const metaVersion = clause.get('v')
  if (clause.get('g') !== metaGroup || !isMetaVersion(metaVersion)) return undefined
  const as = clause.get('as')
  if (as === 'Table') {
    const includeObject = readIncludeObject(query)
    return kept(
      version,
      `${as}.${metaVersion}.${includeObject}`,
      () => new TableView(version, new TableColumns(version.printerColumns), { metaVersion, includeObject }),
    )
  }
  if (as !== (ofList ? 'PartialObjectMetadataList' : 'PartialObjectMetadata')) return undefined
  return kept(
    version,
    `PartialObjectMetadata.${metaVersion}`,
    () => new PartialMetadataView(version, metaVersion),
  )
}

function kept(version: ServedVersion, key: string, make: () => ObjectView): ObjectView {
  const known = views.get(version) ?? new Map<string, ObjectView>()
  views.set(version, known)
  const view = known.get(key) ?? make()
  known.set(key, view)
  return view
}

function isMetaVersion(text: string | undefined): text is MetaVersion {
  return text === 'v1' || text === 'v1beta1'
}

function readIncludeObject(query: URLSearchParams): IncludeObject {
  const given = query.get('includeObject') || 'Metadata'
  const known = includeObjectValues.find(value => value === given)
  if (known !== undefined) return known
  throw new ApiError(
    'BadRequest',
    `includeObject ${quote(given)} is not one of ${includeObjectValues.join(', ')}`,
  )
}
