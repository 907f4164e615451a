/** The guarantees that are checked, and their meaning. */
export const guarantees = Object.freeze({
  filter:
    'A watcher receives exactly the changes of objects that match its selector: ADDED when an object starts to match, MODIFIED while it matches, DELETED when it stops matching or is deleted.',
  ordered: 'The versions of the changes on a watch rise.',
  unique: 'No change is sent twice, not even after a reconnect.',
  atomic: 'One version is one change of one object, for every watcher.',
  bookmarkable: 'No change at or below the version of a bookmark follows it, and bookmarks never go back.',
  resumable: 'A watch resumed from a version starts after it.',
  reliable: 'A watcher receives every matching change between the first and the last version that it knows.',
  'previous state': 'DELETED has the last content that matched, with the version of the change.',
  genuine: 'Every event is a change that happened, with the object as it was at that version.',
  'initial state':
    'A watch without a version starts with exactly the matching objects at the version of its first bookmark, each once as ADDED, in name order.',
  list: 'The items of a list are exactly the matching objects at its version.',
  fresh: 'A list, and the start of a watch, include every write acknowledged before the request.',
  expiry: 'A watch receives 410 only if the changes after its version were compacted.',
  acknowledged: 'An acknowledged write happened, at its version and with the returned content.',
  refused: 'A refused write never happened.',
  'unique value': 'No two objects have the same value of a unique index at one version.',
  once: 'A write happens at most once, even if its outcome is unknown.',
})

/** The name of a guarantee. */
export type Guarantee = keyof typeof guarantees

/** One violation of a guarantee. */
export interface Violation {
  readonly guarantee: Guarantee
  /** The watcher or list that saw it; undefined for a write. */
  readonly seenBy: string | undefined
  /** A sentence with names and versions. */
  readonly message: string
}
