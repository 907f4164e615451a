/** Another form of objects in a response: a Table, their metadata alone, or protobuf. */
export interface ObjectView {
  /** Distinguishes the views of one version of a kind. */
  readonly key: string
  /** The fields of a list besides its metadata and items. */
  readonly list: ListForm
  /** Returns the form of one object, which is the whole response or the first event of a watch. */
  object(wire: Buffer): Buffer
  /** Returns the form of an object in a later event of a watch. */
  event(wire: Buffer): Buffer
}

/** The form of a list. */
export interface ListForm {
  /** Default: JSON. */
  readonly contentType?: string
  readonly head: { readonly apiVersion: string; readonly kind: string }
  /** Fields behind the metadata. */
  readonly fields: object
  /** The name of the field with the items. */
  readonly itemsField: 'items' | 'rows'
  /** Whether an item costs so little that a long list need not yield for it. */
  readonly isQuick: boolean
  /** The text before the form of each item. */
  readonly itemStart: '' | '{'
  /** Returns the form of an item, behind `itemStart`. */
  item(wire: Buffer): Buffer
  /** Returns the parts of a list, given its metadata and the forms of its items. Default: JSON. */
  enclose?(metadata: object, items: readonly Buffer[]): Buffer[]
}

/** The API group of both forms, and its versions. */
export const metaGroup = 'meta.k8s.io'
export type MetaVersion = 'v1' | 'v1beta1'
