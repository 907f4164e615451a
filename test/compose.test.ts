import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { load } from 'js-yaml'
import { beforeAll, describe, expect, it } from 'vitest'
import { parseCommandLine } from '../apiserver/src/cli/flags.ts'
import { type Image, readImage } from './support/image.ts'
import { arrayOf, type Fields, fieldsOf, isFields, textOf } from './support/json.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

let image: Image
beforeAll(async () => {
  image = await readImage()
})

describe('the image', () => {
  it('contains the program and the health check that it starts', () => {
    const [entrypoint = ''] = image.instructions('ENTRYPOINT')
    const health = /CMD (\[.*\])/.exec(image.instructions('HEALTHCHECK')[0] ?? '')?.[1] ?? ''
    for (const command of [entrypoint, health]) {
      const [program, file = ''] = arrayOf(JSON.parse(command)).map(textOf)
      expect(program).toBe('node')
      expect(existsSync(join(root, posix.relative('/app', file))), file).toBe(true)
    }
  })

  it('runs as a numeric user other than root', () => {
    expect(image.instructions('USER')).toEqual(['1000:1000'])
  })

  it('refuses to start without tokens', () => {
    const { args, env } = image
    expect(() => parseCommandLine(args, env)).toThrow('give --token-file')
    const tokens = { ...env, SETPOINT_TOKEN_FILE: '/tokens' }
    expect(parseCommandLine(args, tokens, () => '[]')).toMatchObject({
      options: { role: 'all', store: { kind: 'embedded', dataDir: '/data' } },
      warnings: [],
    })
  })

  it('has the program as the archive has it, and the health check', () => {
    const [steps = ''] = image.builds.flatMap(build => build.instructions('RUN'))
    expect(steps).toMatch(/npm run build && node scripts\/assemble\.mjs \/program$/)
    expect(image.instructions('COPY')).toEqual([
      '--from=build /program /app',
      'scripts/container-health.mjs /app/scripts/',
    ])
  })

  it('copies only files that .dockerignore lets through', async () => {
    const ignore = await readFile(join(root, '.dockerignore'), 'utf8')
    const let_ = [...ignore.matchAll(/^!(\S+)$/gm)].map(([, path = '']) => path)
    expect(ignore).toMatch(/^\*$/m)
    for (const path of let_) expect(existsSync(join(root, path)), path).toBe(true)
    expect(let_).toEqual(
      expect.arrayContaining(['package-lock.json', 'apiserver', 'plugins', 'scripts/assemble.mjs']),
    )
  })
})

/** Resolves `<<` as Compose does; YAML 1.2 has no merge keys. */
function merged(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(merged)
  if (!isFields(value)) return value
  const { '<<': base, ...own } = value
  const entries = Object.entries({ ...fieldsOf(base === undefined ? {} : merged(base)), ...own })
  return Object.fromEntries(entries.map(([key, each]) => [key, merged(each)]))
}

describe('docker-compose.yaml', () => {
  let services: Readonly<Record<string, Fields>>
  let secrets: Fields
  beforeAll(async () => {
    const text = await readFile(join(root, 'docs/operations/docker-compose.yaml'), 'utf8')
    const compose = fieldsOf(merged(load(text)))
    secrets = fieldsOf(compose.secrets)
    services = Object.fromEntries(
      Object.entries(fieldsOf(compose.services)).map(([name, service]) => [name, fieldsOf(service)]),
    )
  })
  const environmentOf = (name: string) =>
    Object.fromEntries(
      Object.entries(fieldsOf(services[name]?.environment)).map(([key, value]) => [key, textOf(value)]),
    )

  it("has three etcd members with each other's addresses, and two servers with all of them", () => {
    const members = ['etcd-1', 'etcd-2', 'etcd-3']
    for (const name of members) {
      expect(environmentOf(name)).toMatchObject({
        ETCD_NAME: name,
        ETCD_ADVERTISE_CLIENT_URLS: `http://${name}:2379`,
        ETCD_INITIAL_ADVERTISE_PEER_URLS: `http://${name}:2380`,
        ETCD_INITIAL_CLUSTER: members.map(each => `${each}=http://${each}:2380`).join(','),
      })
      expect(services[name]?.volumes).toEqual([`${name}:/etcd-data`])
    }
    for (const name of ['server-1', 'server-2']) {
      const options = parse(name)
      const endpoints = members.map(each => `http://${each}:2379`)
      expect(options).toMatchObject({ role: 'apiserver', store: { kind: 'etcd', endpoints } })
    }
  })

  it('gives the controllers the common name of both servers and a health address', () => {
    const aliases = ['server-1', 'server-2'].map(name => {
      const networks = fieldsOf(services[name]?.networks)
      return arrayOf(fieldsOf(networks.default).aliases)
    })
    expect(aliases).toEqual([['setpoint-api'], ['setpoint-api']])
    expect(parse('controllers')).toMatchObject({
      role: 'controllers',
      server: 'http://setpoint-api:8090',
      healthListen: { port: 8091 },
    })
  })

  it("publishes the servers' ports on the loopback only", () => {
    const ports = Object.values(services).flatMap(({ ports }) => arrayOf(ports ?? []).map(textOf))
    expect(ports).toEqual(['127.0.0.1:8090:8090', '127.0.0.1:8091:8090'])
  })

  /** Parses a service's environment as the program does, which refuses unknown variables. */
  function parse(name: string): object {
    const { args, env } = image
    const mounted = new Set(
      arrayOf(services[name]?.secrets).map(secret => {
        expect(isFields(secrets[textOf(secret)])).toBe(true)
        return `/run/secrets/${textOf(secret)}`
      }),
    )
    const line = parseCommandLine(args, { ...env, ...environmentOf(name) }, path => {
      expect([...mounted]).toContain(path)
      return path.endsWith('tokens') ? '[]' : 'sp_x'
    })
    if (line.command !== 'serve') throw new Error(`it is told to ${line.command}`)
    expect(line.warnings).toEqual([])
    return line.options
  }
})
