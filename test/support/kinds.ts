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

export const pluginsPath = '/apis/plugins.setpoint.dev/v1/plugins'
