import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Client } from '../client/client.ts'
import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'

export interface InformerOptions {
  readonly client: Client
  readonly log?: Logger
  readonly clock?: Clock
}

export class Informer<T extends ApiObject = ApiObject> {
  readonly model: Model<T>
  readonly #options: InformerOptions
  constructor(model: Model<T>, options: InformerOptions) {
    this.model = model
    this.#options = options
  }
  get client(): Client {
    return this.#options.client
  }
}
