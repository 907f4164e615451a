/**
 * Events: what happened to an object, for people to read, kept for an hour. An `EventRecorder` writes them in the
 * background and merges repetitions; an `EventKeeper` deletes old ones. Delivery is best effort: nothing may depend on
 * an event. Lasting state belongs in the conditions of the object.
 */
export { EventKeeper, type EventKeeperOptions, eventKeeperDefaults } from './event-keeper.ts'
export {
  EventRecorder,
  type EventRecorderOptions,
  eventRecorderDefaults,
  type RecordedEvent,
} from './event-recorder.ts'
