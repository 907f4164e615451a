import type { WireVersion } from '../model/index.ts'
import { type ListForm, type MetaVersion, metaGroup, type ObjectView } from './object-view.ts'

/** Objects as PartialObjectMetadata: their metadata without their content. */
export class PartialMetadataView implements ObjectView {
  readonly key: string
  readonly list: ListForm
  readonly #version: WireVersion
  /** The text before the metadata. */
  readonly #start: string

  constructor(version: WireVersion, metaVersion: MetaVersion) {
    const apiVersion = `${metaGroup}/${metaVersion}`
    this.key = `PartialObjectMetadata.${metaVersion}`
    this.#version = version
    this.#start = `{"kind":"PartialObjectMetadata","apiVersion":"${apiVersion}","metadata":`
    this.list = {
      head: { apiVersion, kind: 'PartialObjectMetadataList' },
      fields: {},
      itemsField: 'items',
      isQuick: false,
      itemStart: '',
      item: wire => this.object(wire),
    }
  }

  object(wire: Buffer): Buffer {
    return Buffer.from(this.json(wire))
  }

  event(wire: Buffer): Buffer {
    return this.object(wire)
  }

  json(wire: Buffer): string {
    return `${this.#start}${metadataJson(this.#version, wire)}}`
  }
}

const metadataField = '"metadata":'
const quote = 0x22
const backslash = 0x5c
const openBrace = 0x7b
const closeBrace = 0x7d

/** Returns the JSON of an object's metadata. From the usual form of wire JSON it is cut out, without parsing. */
export function metadataJson({ wirePrefix }: WireVersion, wire: Buffer): string {
  const start = wirePrefix.lastIndexOf(metadataField) + metadataField.length
  if (wire.toString('latin1', 0, start) !== wirePrefix.slice(0, start))
    return JSON.stringify(JSON.parse(wire.toString()).metadata)
  return wire.toString('utf8', start, endOfObject(wire, start))
}

/** Returns the offset behind the JSON object that begins at `start`. */
function endOfObject(json: Buffer, start: number): number {
  let depth = 0
  for (let at = start; at < json.length; at++) {
    const byte = json[at]
    if (byte === quote) at = endOfText(json, at)
    else if (byte === openBrace) depth++
    else if (byte === closeBrace && --depth === 0) return at + 1
  }
  throw new SyntaxError('the object has no end')
}

/** Returns the offset of the quote that ends the text which begins at `start`. */
function endOfText(json: Buffer, start: number): number {
  let at = start + 1
  while (at < json.length && json[at] !== quote) at += json[at] === backslash ? 2 : 1
  return at
}
