import childProcess from 'node:child_process'
import crypto from 'node:crypto'
import dgram from 'node:dgram'
import dns from 'node:dns'
import dnsPromises from 'node:dns/promises'
import fs from 'node:fs'
import fsPromises from 'node:fs/promises'
import http2 from 'node:http2'
import net from 'node:net'
import tls from 'node:tls'
import workers from 'node:worker_threads'
import zlib from 'node:zlib'
import type { Replaced } from './replaced.ts'
import type { Scheduler } from './scheduler.ts'
import type { SeededRandom } from './world.ts'

/** Code in the world asked for something that no seed decides. */
export class GuardError extends Error {
  override readonly name = 'GuardError'
}

const forbidden: readonly (readonly [object, string, readonly string[]])[] = [
  [
    childProcess,
    'child_process',
    ['exec', 'execFile', 'fork', 'spawn', 'execSync', 'spawnSync', 'execFileSync'],
  ],
  [
    crypto,
    'crypto',
    [
      'generateKey',
      'generateKeyPair',
      'generateKeyPairSync',
      'generateKeySync',
      'hkdf',
      'pbkdf2',
      'scrypt',
      'generatePrime',
      'generatePrimeSync',
    ],
  ],
  [
    crypto.subtle,
    'crypto.subtle',
    [
      'decrypt',
      'deriveBits',
      'deriveKey',
      'digest',
      'encrypt',
      'exportKey',
      'generateKey',
      'importKey',
      'sign',
      'unwrapKey',
      'verify',
      'wrapKey',
    ],
  ],
  [dgram, 'dgram', ['createSocket']],
  [dns, 'dns', ['lookup', 'resolve']],
  [dnsPromises, 'dns', ['lookup', 'resolve']],
  [
    fs,
    'fs',
    [
      'createReadStream',
      'createWriteStream',
      'mkdtempSync',
      'open',
      'openSync',
      'readFile',
      'readdir',
      'readdirSync',
      'stat',
      'watch',
      'writeFile',
      'writeFileSync',
    ],
  ],
  [fsPromises, 'fs', ['mkdtemp', 'open', 'readFile', 'readdir', 'stat', 'writeFile']],
  [http2, 'http2', ['connect']],
  [net.Server.prototype, 'net.Server', ['listen']],
  [net.Socket.prototype, 'net.Socket', ['connect']],
  [tls, 'tls', ['connect']],
  [workers, 'worker_threads', ['Worker']],
  [
    zlib,
    'zlib',
    [
      'brotliCompress',
      'createBrotliCompress',
      'createDeflate',
      'createGunzip',
      'createGzip',
      'createInflate',
      'deflate',
      'gunzip',
      'gzip',
      'inflate',
    ],
  ],
]

/** Fails the run in which code of the world asks for a real file, socket, process or thread. */
export function guardTheReal(replaced: Replaced, scheduler: Scheduler): void {
  const inside = () => scheduler.current !== undefined
  const refuse = (what: string): never => {
    const error = new GuardError(`${scheduler.current?.name} asked for ${what}, which no seed decides`)
    // Its caller may catch it.
    scheduler.fail(error)
    throw error
  }
  for (const [target, name, methods] of forbidden)
    for (const method of methods) replaced.method(target, method, inside, () => refuse(`${name}.${method}`))
  replaced.method(fs, 'readFileSync', inside, (_, [path]) => {
    // Sandboxes without it are a known case.
    if (String(path).startsWith('/proc/'))
      throw Object.assign(new Error(`no such file: ${path}`), { code: 'ENOENT' })
    return refuse(`fs.readFileSync of ${path}`)
  })
}

/** Takes all randomness of the world from its seed. */
export function replaceRandomness(replaced: Replaced, scheduler: Scheduler, random: SeededRandom): void {
  const inside = () => scheduler.current !== undefined
  const uuid = () => uuidOf(random.bytes(16))
  replaced.method(Math, 'random', inside, () => random.next())
  replaced.method(crypto, 'randomBytes', inside, (_, [count, callback]) => bytesFor([count, callback]))
  replaced.method(crypto, 'randomUUID', inside, uuid)
  replaced.method(crypto.webcrypto, 'randomUUID', inside, uuid)
  replaced.method(crypto, 'randomInt', inside, (_, args) => {
    const [first, second] = args
    const [min, max] = typeof second === 'number' ? [Number(first), second] : [0, Number(first)]
    return random.int(min, max - 1)
  })
  replaced.method(crypto, 'randomFillSync', inside, (_, [target, offset, size]) => fill(target, offset, size))
  replaced.method(crypto.webcrypto, 'getRandomValues', inside, (_, [target]) => fill(target, 0, undefined))

  function bytesFor([count, callback]: readonly unknown[]): unknown {
    const bytes = random.bytes(Number(count))
    if (typeof callback !== 'function') return bytes
    process.nextTick(() => Reflect.apply(callback, undefined, [null, bytes]))
    return undefined
  }

  function fill(target: unknown, offset: unknown, size: unknown): unknown {
    if (!ArrayBuffer.isView(target)) throw new TypeError('only views can be filled')
    const start = typeof offset === 'number' ? offset : 0
    const length = typeof size === 'number' ? size : target.byteLength - start
    random.bytes(length).copy(new Uint8Array(target.buffer, target.byteOffset + start, length))
    return target
  }
}

function uuidOf(bytes: Buffer): string {
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
