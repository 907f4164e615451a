/**
 * What only Kubernetes' clients ask for: discovery, and objects as Tables or as their metadata alone. A view turns the wire
 * JSON of an object into another form, and knows neither requests nor caches. Clients that ask for no view pay nothing.
 */
export { type AggregatedVersion, aggregatedGroup, aggregatedVersions } from './aggregated-discovery.ts'
export { Discovery, type DiscoveryDocument } from './discovery.ts'
export type { ListForm, ObjectView } from './object-view.ts'
export { findObjectView } from './object-views.ts'
export { ViewSink } from './view-sink.ts'
