/**
 * Events: what happened to an object, for people to read, kept for an hour. An `EventRecorder` writes them on the side,
 * joining repetitions; an `EventKeeper` removes what is old or too much. They are told at best effort: nothing may
 * depend on one. What holds of an object belongs into its conditions.
 */
export { type Event, type EventModel, type EventSpec, eventModel } from './event.ts'
export { EventKeeper, type EventKeeperOptions, eventKeeperDefaults } from './event-keeper.ts'
export {
  EventRecorder,
  type EventRecorderOptions,
  eventRecorderDefaults,
  type RecordedEvent,
} from './event-recorder.ts'
