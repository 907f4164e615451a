/** What is checked of a run, and what each means. */
export const guarantees = Object.freeze({
  filter:
    'A watcher is told of what concerns its selector, and of nothing else: ADDED when an object comes to match, MODIFIED while it matches, DELETED when it ceases to or is gone.',
  ordered: 'The versions of the changes on a watch rise.',
  unique: 'No change comes twice, also over reconnections.',
  atomic: 'One version is one change of one object, for everybody.',
  bookmarkable: 'After a bookmark nothing comes at or below its version, and bookmarks do not go back.',
  resumable: 'A watch resumed from a version begins after it.',
  reliable:
    'Every change that concerns a watcher, between the first and the last version it knows, has come.',
  'previous state': 'DELETED carries the last content that matched, with the version of the change.',
  genuine: 'What is told has happened, and an object is told as it was at its version.',
  'initial state':
    'A watch from the present begins with exactly what matched at the version of its first bookmark, each object once as ADDED, by name.',
  list: 'The items of a list are exactly what matched at its version.',
  fresh:
    'A list, and the beginning of a watch, are as new as every write acknowledged before they were asked for.',
  expiry: 'A watch gets a 410 only where the changes after its version were compacted.',
  acknowledged: 'An acknowledged write happened, at its version and as it was answered.',
  refused: 'A refused write never happened.',
  once: 'A write happens at most once, also where its outcome is unknown.',
})

/** What a checker holds a run to. */
export type Guarantee = keyof typeof guarantees

/** One fault of a run. */
export interface Violation {
  readonly guarantee: Guarantee
  /** The watcher or list it was seen by; undefined where it is about a write. */
  readonly seenBy: string | undefined
  /** A sentence with names and versions. */
  readonly message: string
}
