import { isUtf8 } from 'node:buffer'
import { isRecord, type Revision, toRevision } from '@setpoint/controller-runtime/api'
import type { KeyValue } from '../storage/index.ts'

/**
 * The lines of a backup, one JSON document each. docs/operations/backup-format.md describes them for people.
 *
 *     header    {"setpoint":"backup","format":1,"kind":"full","revision":42,…}
 *     entry     {"key":"objects/…","version":7,"reservations":{…},"object":{…}}     an object, see model/stored-object.ts
 *               {"key":"models/…","version":7,"value":{…}}                          another value that is JSON
 *               {"key":"…","version":7,"base64":"…"}                                a value that is not
 *               {"key":"…","version":9,"deleted":true}                              only in an increment
 *     footer    {"end":true,"entries":2,…,"sha256":"…"}
 *
 * The JSON of a stored value stands in its line byte for byte, because a restore brings back the same bytes. So a line
 * is taken apart by its layout: the members are in this order, and there is no space between them.
 */
export const backupFormat = 1

/** The file is not a backup, is damaged, or cannot be used as asked. The message begins with what is wrong. */
export class BackupError extends Error {
  override readonly name = 'BackupError'
}

/** What an increment continues. */
export interface PrecedingBackup {
  readonly revision: Revision
  /** The checksum in its footer. */
  readonly sha256: string
}

export interface BackupHeader {
  /** All that the file has is the state, or the changes up to, this revision of the store. */
  readonly revision: Revision
  /** RFC 3339. */
  readonly takenAt: string
  /** The version of the program that took it. */
  readonly program: string
  /** Bytes that the store used, for estimates. They include its history. */
  readonly storeBytes: number
  /** The backup that this one has the changes since. Undefined for a full one. */
  readonly since: PrecedingBackup | undefined
}

export interface BackupFooter {
  readonly entries: number
  readonly objects: number
  readonly deletions: number
  /** SHA-256, in hex, of all lines before. */
  readonly sha256: string
}

export interface BackupEntry {
  readonly key: string
  /** The revision of the store that put the value, or deleted the key. */
  readonly version: Revision
  /** Undefined for a deletion. */
  readonly value: Buffer | undefined
}

/** Prefix of the keys of all objects. */
const objectsPrefix = 'objects/'

export function isObject(key: string): boolean {
  return key.startsWith(objectsPrefix)
}

/**
 * Keys that do not come back:
 *
 * - `compaction` is the revision up to which the servers will compact the former history.
 * - Leases of setpoint-system say which process led when the backup was taken. Leaders elect themselves again at once.
 *   Leases in other namespaces are objects of their users, and come back.
 *
 * The tip, the fence and the base of etcd belong to its adapter, which never lists them.
 */
export function isLeftOut(key: string): boolean {
  return key === 'compaction' || key.startsWith('objects/coordination.k8s.io/leases/setpoint-system/')
}

export function encodeHeader({ since, ...header }: BackupHeader): Buffer {
  const kind = since === undefined ? 'full' : 'increment'
  return lineOf({ setpoint: 'backup', format: backupFormat, kind, ...header, since })
}

export function encodeFooter(footer: BackupFooter): Buffer {
  return lineOf({ end: true, ...footer })
}

export function encodeEntry({
  key,
  modRevision,
  value,
}: Pick<KeyValue, 'key' | 'modRevision' | 'value'>): Buffer {
  const start = startOf(key, modRevision)
  if (isUtf8(value)) {
    const newline = value.indexOf(0x0a)
    if (newline === -1 && isJson(value)) return Buffer.concat([start, members.value, value, lineEnd])
    const first = value.subarray(0, newline)
    const second = value.subarray(newline + 1)
    const hasTwo = newline !== -1 && second.indexOf(0x0a) === -1
    if (hasTwo && isBraced(first) && isJson(first) && isJson(second))
      return Buffer.concat([start, members.reservations, first, members.object, second, lineEnd])
  }
  return Buffer.concat([start, members.base64, Buffer.from(value.toString('base64')), textEnd])
}

export function encodeDeletion(key: string, revision: Revision): Buffer {
  return Buffer.concat([startOf(key, revision), members.deleted, lineEnd])
}

function startOf(key: string, revision: Revision): Buffer {
  return Buffer.from(`{"key":${JSON.stringify(key)},"version":${revision}`)
}

function lineOf(document: object): Buffer {
  return Buffer.from(`${JSON.stringify(document)}\n`)
}

const members = Object.freeze({
  reservations: Buffer.from(',"reservations":'),
  object: Buffer.from(',"object":'),
  value: Buffer.from(',"value":'),
  base64: Buffer.from(',"base64":"'),
  deleted: Buffer.from(',"deleted":true'),
})
const lineEnd = Buffer.from('}\n')
const textEnd = Buffer.from('"}\n')

/** Its end can be found then. */
function isBraced(text: Buffer): boolean {
  return text[0] === 0x7b && text.at(-1) === 0x7d
}

function isJson(text: Buffer): boolean {
  try {
    JSON.parse(text.toString())
    return true
  } catch {
    return false
  }
}

/** @param line without its end. @throws BackupError */
export function decodeHeader(line: Buffer): BackupHeader {
  const header = documentIn(line)
  if (header?.setpoint !== 'backup' || typeof header.format !== 'number')
    throw new BackupError('it is not a backup of Setpoint')
  if (header.format > backupFormat)
    throw new BackupError(
      `it has format ${header.format}, written by a newer version of Setpoint; this version reads formats up to ${backupFormat}`,
    )
  const { since } = header
  return {
    revision: revisionIn(header.revision),
    takenAt: String(header.takenAt),
    program: String(header.program),
    storeBytes: Number(header.storeBytes),
    since: isRecord(since)
      ? { revision: revisionIn(since.revision), sha256: String(since.sha256) }
      : undefined,
  }
}

/** Returns undefined if the line is an entry. */
export function decodeFooter(line: Buffer): BackupFooter | undefined {
  if (line.subarray(0, footerStart.length).compare(footerStart) !== 0) return undefined
  const footer = documentIn(line)
  if (footer === undefined) return undefined
  const { entries, objects, deletions, sha256 } = footer
  return {
    entries: Number(entries),
    objects: Number(objects),
    deletions: Number(deletions),
    sha256: String(sha256),
  }
}

const footerStart = Buffer.from('{"end":true,')

/** @param line without its end. @throws BackupError */
export function decodeEntry(line: Buffer): BackupEntry {
  const [, keyText, versionText] =
    entryStart.exec(line.toString('latin1', 0, Math.min(line.length, startBytes))) ?? []
  if (keyText === undefined || versionText === undefined || line.at(-1) !== 0x7d) throw damagedLine()
  const key: unknown = JSON.parse(Buffer.from(keyText, 'latin1').toString())
  if (typeof key !== 'string') throw damagedLine()
  const version = revisionIn(Number(versionText))
  const rest = line.subarray(beforeKey + keyText.length + beforeVersion + versionText.length, -1)
  return { key, version, value: valueIn(rest) }
}

/** A key has at most a kilobyte, and each of its characters at most six in JSON. */
const startBytes = 8 * 1024
const beforeKey = '{"key":'.length
const beforeVersion = ',"version":'.length
const entryStart = /^\{"key":("(?:[^"\\]|\\.)*"),"version":(\d{1,16}),/

function valueIn(rest: Buffer): Buffer | undefined {
  const after = (member: Buffer) =>
    rest.subarray(0, member.length).equals(member) ? rest.subarray(member.length) : undefined
  const value = after(members.value)
  if (value !== undefined) return value
  const pair = after(members.reservations)
  if (pair !== undefined) {
    const end = endOfJson(pair)
    if (!pair.subarray(end, end + members.object.length).equals(members.object)) throw damagedLine()
    return Buffer.concat([pair.subarray(0, end), newline, pair.subarray(end + members.object.length)])
  }
  const base64 = after(members.base64)
  if (base64 !== undefined) return Buffer.from(base64.toString('latin1', 0, base64.length - 1), 'base64')
  if (rest.equals(members.deleted)) return undefined
  throw damagedLine()
}

const newline = Buffer.from('\n')

/** Returns the end of the object or list that the bytes begin with. */
function endOfJson(bytes: Buffer): number {
  let depth = 0
  let isInText = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === 0x5c) at++
    else if (byte === 0x22) isInText = !isInText
    else if (!isInText && (byte === 0x7b || byte === 0x5b)) depth++
    else if (!isInText && (byte === 0x7d || byte === 0x5d) && --depth === 0) return at + 1
  }
  throw damagedLine()
}

function documentIn(line: Buffer): Record<string, unknown> | undefined {
  try {
    const document: unknown = JSON.parse(line.toString())
    return isRecord(document) ? document : undefined
  } catch {
    return undefined
  }
}

function revisionIn(value: unknown): Revision {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return toRevision(value)
  throw damagedLine()
}

function damagedLine(): BackupError {
  return new BackupError('it is damaged: a line is malformed')
}
