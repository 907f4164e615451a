import type { JsonObject } from '../model/index.ts'
import { Members } from './members.ts'

/** A part of a Swagger 2.0 document. The paths and definitions of all parts together are those of the document. */
export interface SwaggerPart extends JsonObject {
  readonly paths?: JsonObject
  readonly definitions?: JsonObject
}

/** Encodes a document part by part, so that no single call encodes all of it. */
export interface SwaggerEncoder {
  add(part: SwaggerPart): void
  /** Returns the whole document. Nothing can be added to it. */
  end(): Buffer
}

export class SwaggerJson implements SwaggerEncoder {
  readonly #others = new Members()
  readonly #paths = new Members()
  readonly #definitions = new Members()

  add({ paths = {}, definitions = {}, ...others }: SwaggerPart): void {
    this.#paths.add(paths)
    this.#definitions.add(definitions)
    this.#others.add(others)
  }

  end(): Buffer {
    const document = this.#others
    document.addText('paths', this.#paths.text)
    document.addText('definitions', this.#definitions.text)
    return Buffer.from(document.text)
  }
}
