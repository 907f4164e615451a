import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { load } from 'js-yaml'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { blocksOf, type DocBlock, fileOf } from './support/doc-blocks.ts'
import { render } from './support/helm.ts'
import { fieldsOf } from './support/json.ts'
import { findKubectl } from './support/kubectl.ts'
import { OidcIssuer } from './support/oidc-issuer.ts'
import { freePort } from './support/ports.ts'
import { type Running, spawnProgram } from './support/server.ts'

/** docs/operations/production.md, as a new operator reads it: every file is written and every command run, in order. */

const root = fileURLToPath(new URL('..', import.meta.url))
const page = 'docs/operations/production.md'

let folder: string
let issuer: OidcIssuer
let server: Running | undefined
let controllers: Running | undefined

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-production-'))
  issuer = await OidcIssuer.start({
    dev: { email: 'dev@example.com', email_verified: true, groups: ['developers'] },
  })
  await writeFile(join(folder, 'provider-ca.crt'), await readFile(issuer.certificates.ca))
})
afterAll(async () => {
  await controllers?.kill('SIGTERM')
  await server?.kill('SIGTERM')
  await issuer?.stop()
  await rm(folder, { recursive: true, force: true })
})

it('leads to a server with HTTPS, single sign-on, roles and metrics', async () => {
  const port = await freePort()
  const adapted = (text: string) =>
    text
      .replaceAll('https://login.example.com', issuer.url)
      .replaceAll('0.0.0.0:8443', `127.0.0.1:${port}`)
      .replaceAll('localhost:8443', `localhost:${port}`)
  const path = [join(root, 'node_modules/.bin'), dirname(await findKubectl()), process.env.PATH].join(
    delimiter,
  )
  const env = { ...process.env, PATH: path, HOME: folder, ID_TOKEN: await issuer.token('dev') }
  const blocks = blocksOf(page, await readFile(join(root, page), 'utf8'))
  const outputs: string[] = []
  const bash = (script: string) => promisify(execFile)('bash', ['-c', script], { cwd: folder, env })
  const run = async ({ text, line }: DocBlock) => {
    const { stdout } = await bash(`set -euo pipefail\n${adapted(text)}`).catch(cause => {
      throw new Error(`${page}:${line}: ${cause.stderr}${cause.stdout}${server?.stderr.slice(-2_000)}`, {
        cause,
      })
    })
    outputs.push(stdout)
  }
  for (const block of blocks) {
    const file = fileOf(block)
    if (file !== undefined) await writeFile(join(folder, file), adapted(block.text))
    else if (block.marks.includes('serve')) {
      const [, ...args] = block.text.trim().split(' ')
      server = spawnProgram(args, { cwd: folder })
      await server.says(/^setpoint listening on https:/)
    } else if (block.marks.includes('controllers')) {
      await symlink(join(root, 'plugins/uptime'), join(folder, 'uptime'))
      const [, ...args] = adapted(block.text).replaceAll('\\\n', ' ').trim().split(/\s+/)
      controllers = spawnProgram(args, { cwd: folder })
      await controllers.says(/^setpoint controllers running against https:/)
    } else if (block.marks.includes('refused')) {
      for (const line of adapted(block.text).trimEnd().split('\n'))
        await expect(bash(line), line).rejects.toThrow(/forbidden|403/)
    } else if (!block.marks.includes('helm') && !block.marks.includes('owner')) await run(block)
  }
  const [whoami = ''] = outputs.filter(text => text.includes('Username'))
  expect(whoami).toMatch(/oidc:dev@example\.com/)
  expect(whoami).toContain('oidc:developers')
  expect(outputs.join('')).toContain('apiserver_request_total')
})

it('has values that the chart takes', async () => {
  const blocks = blocksOf(page, await readFile(join(root, page), 'utf8'))
  const values = blocks.find(block => fileOf(block) === 'values.yaml')
  const { objects } = await render(fieldsOf(load(values?.text ?? '')))
  const servers = objects.find(({ kind, name }) => kind === 'Deployment' && !name.endsWith('controllers'))
  expect(servers?.pod?.args).toContain('--oidc-issuer=https://login.example.com')
})
