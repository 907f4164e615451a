import { type Api, Collection } from './api.ts'

/** The kinds of the fixture plugins. */

export function itemsOf(api: Api): Collection {
  return new Collection(api, 'items.example.com/v1', 'Item', 'items')
}

export function devicesOf(api: Api): Collection {
  return new Collection(api, 'items.example.com/v1', 'Device', 'devices')
}

export function vaultsOf(api: Api): Collection {
  return new Collection(api, 'items.example.com/v1', 'Vault', 'vaults')
}

export function gadgetsOf(api: Api): Collection {
  return new Collection(api, 'demo.example.com/v1', 'Gadget', 'gadgets')
}

export function partsOf(api: Api): Collection {
  return new Collection(api, 'parts.example.com/v1', 'Part', 'parts')
}

export const pluginsPath = '/apis/plugins.setpoint.dev/v1/plugins'

export function turnsOf(api: Api): Collection {
  return new Collection(api, 'turns.example.com/v1', 'Turn', 'turns')
}

export function leasesOf(api: Api): Collection {
  return new Collection(api, 'coordination.k8s.io/v1', 'Lease', 'leases', 'setpoint-system')
}

export function placesIn(api: Api, namespace: string): Collection {
  return new Collection(api, 'places.example.com/v1', 'Place', 'places', namespace)
}

export function regionsOf(api: Api): Collection {
  return new Collection(api, 'places.example.com/v1', 'Region', 'regions')
}

export function namespacesOf(api: Api): Collection {
  return new Collection(api, 'v1', 'Namespace', 'namespaces')
}
