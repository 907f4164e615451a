import type { Api, Collection } from './api.ts'
import { type Certificates, makeCertificates } from './certificates.ts'
import { ConversionWebhook, type Convert } from './conversion-webhook.ts'
import { define, definitionOf, objectsOf, type VersionParts } from './definitions.ts'
import { type Fields, fieldsOf, isFields } from './json.ts'
import { type SharedWorld, type Store, startSharedWorld } from './worlds.ts'

/** A kind in three versions, whose webhook renames a field: `color` in v1, `colour` in v1beta1, `hue` in v1alpha1. */

const group = 'conv.example.com'

const fieldNames: Readonly<Record<string, string>> = { v1: 'color', v1beta1: 'colour', v1alpha1: 'hue' }

export const renameField: Convert = (object, to) => {
  const from = String(object.apiVersion).replace(/^.*\//, '')
  const { spec } = object
  if (!isFields(spec)) return { ...object, apiVersion: `${group}/${to}` }
  const { [fieldNames[from] ?? '']: value, ...rest } = spec
  const renamed = value === undefined ? rest : { ...rest, [fieldNames[to] ?? '']: value }
  return { ...object, apiVersion: `${group}/${to}`, spec: renamed }
}

/** Only v1beta1 has a default: `size` 7. */
function versionOf(name: string, field: string): VersionParts {
  const size = { type: 'integer', ...(name === 'v1beta1' && { default: 7 }) }
  const color = { type: 'string', maxLength: 20 }
  return {
    spec: { type: 'object', properties: { [field]: color, size } },
    subresources: {
      status: {},
      scale: { specReplicasPath: '.spec.size', statusReplicasPath: '.status.size' },
    },
    root: {
      properties: {
        spec: { type: 'object', properties: { [field]: color, size } },
        status: {
          type: 'object',
          properties: { [`is${field}`]: { type: 'string' }, size: { type: 'integer' } },
        },
      },
    },
    columns: [{ name: field, type: 'string', jsonPath: `.spec.${field}` }],
    selectable: [`.spec.${field}`, '.spec.size'],
  }
}

/** @param options.storage default v1 */
export function widgetDefinition(
  { conversion }: Pick<ConversionWebhook, 'conversion'>,
  { storage = 'v1', plural = 'widgets' } = {},
): Fields {
  const versions = Object.entries(fieldNames).map(([name, field]): [string, VersionParts] => [
    name,
    { ...versionOf(name, field), storage: name === storage },
  ])
  const definition = definitionOf({ plural, group, versions: Object.fromEntries(versions) })
  return { ...definition, spec: { ...fieldsOf(definition.spec), conversion } }
}

/** A server with widgets, and their webhook. */
export class Widgets {
  readonly world: SharedWorld
  readonly webhook: ConversionWebhook
  readonly certificates: Certificates
  readonly #definition: Fields

  private constructor(world: SharedWorld, webhook: ConversionWebhook, certificates: Certificates) {
    this.world = world
    this.webhook = webhook
    this.certificates = certificates
    this.#definition = widgetDefinition(webhook)
  }

  static async start(store: Store): Promise<Widgets> {
    const world = await startSharedWorld(store, [])
    const certificates = await makeCertificates()
    const widgets = new Widgets(world, await ConversionWebhook.start(certificates, renameField), certificates)
    await define(world.api, widgets.#definition)
    return widgets
  }

  get api(): Api {
    return this.world.api
  }

  /** The widgets in a version. */
  at(version: string, api = this.api): Collection {
    return objectsOf(api, this.#definition, { version })
  }

  /** Makes the webhook work again, and removes all widgets. */
  async clear(): Promise<void> {
    this.webhook.convert = renameField
    this.webhook.raw = undefined
    await this.at('v1').clear()
    this.webhook.forget()
  }

  async end(): Promise<void> {
    await this.webhook.stop()
    await this.world.end()
  }
}
