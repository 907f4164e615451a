import type { JsonObject } from '../model/index.ts'

/** The members of a JSON object, encoded one by one, so that no single call encodes a whole document. */
export class Members {
  readonly #members: string[] = []

  add(object: JsonObject): void {
    for (const [key, value] of Object.entries(object)) this.addText(key, JSON.stringify(value))
  }

  addText(key: string, json: string): void {
    this.#members.push(`${JSON.stringify(key)}:${json}`)
  }

  get isEmpty(): boolean {
    return this.#members.length === 0
  }

  get text(): string {
    return `{${this.#members.join(',')}}`
  }
}
