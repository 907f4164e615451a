import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Attack } from '../attack.ts'
import { call } from '../call.ts'
import { type Setup, usual } from '../target.ts'
import { neighbourhood } from '../witness.ts'

/** Attacks that look for secrets or a way around access control. */

const { collection } = neighbourhood
const withoutTokens: Setup = Object.freeze({ ...usual, access: 'local' })
const withTokenFileOfItsOwn: Setup = Object.freeze({ ...usual })

export const disclosureAttacks: readonly Attack[] = [
  {
    name: 'verbose health of a server whose plugin failed with a secret',
    attacker: 'no token',
    async run(scene) {
      for (const path of ['/readyz?verbose', '/livez?verbose', '/healthz?verbose']) {
        const { text } = await call(scene.target, { path })
        scene.check(!/hunter2|\/etc\/secrets/.test(text), `${path} shows ${text.slice(0, 300)}`)
      }
    },
  },
  {
    name: 'the modes of the data folder under umask 022',
    attacker: 'local user',
    async run(scene) {
      if (scene.target.store !== 'embedded') return
      const { dataDir } = scene.target
      for (const path of [dataDir, ...(await readdir(dataDir)).map(name => join(dataDir, name))]) {
        const mode = (await stat(path)).mode & 0o777
        scene.check(
          (mode & 0o077) === 0,
          `${path.slice(dataDir.length) || 'the folder'} has mode ${mode.toString(8)}`,
        )
      }
    },
  },
  {
    name: "a caller's token in a route of a plugin",
    attacker: 'plugin',
    async run(scene) {
      const token = scene.target.users.tokenOf('neighbour')
      const path = '/apis/api.echo.example.com/v1/headers'
      const { status, text } = await call(scene.target, { path, as: 'neighbour' })
      scene.check(status === 200, `the route responded with ${status}`)
      scene.check(!text.includes(token), 'the handler is given the token')
      const protocol = `base64url.bearer.authorization.k8s.io.${Buffer.from(token).toString('base64url')}`
      const headers = { 'sec-websocket-protocol': `${protocol}, other.example.com` }
      const second = await call(scene.target, { path, headers })
      scene.check(!second.text.includes(protocol), 'the handler is given the token of the sub-protocol')
    },
  },
  {
    name: "annotations of the server's own",
    attacker: 'writer',
    async run(scene) {
      const name = 'annotated'
      const annotations = { 'plugins.setpoint.dev/applied': '{}', 'plugins.setpoint.dev/name': 'items' }
      const { status, text } = await call(scene.target, {
        ...{ method: 'POST', path: collection, as: 'writer', signal: scene.signal },
        body: JSON.stringify({
          ...{ apiVersion: 'items.example.com/v1', kind: 'Item' },
          ...{ metadata: { name, annotations }, spec: {} },
        }),
      })
      const isSet = status === 201 && text.includes('plugins.setpoint.dev/')
      scene.check(!isSet, 'a person can set them at creation')
      await call(scene.target, { method: 'DELETE', path: `${collection}/${name}`, as: 'writer' })
    },
  },
  {
    name: 'a page of another site that reads without Origin',
    attacker: 'no token',
    setup: withoutTokens,
    async run(scene) {
      const get = async (site: string) =>
        (await call(scene.target, { path: collection, headers: { 'sec-fetch-site': site } })).status
      for (const site of ['same-origin', 'none']) {
        const status = await get(site)
        scene.check(status === 200, `Sec-Fetch-Site: ${site} got ${status}`)
      }
      const status = await get('cross-site')
      scene.check(status === 403, `Sec-Fetch-Site: cross-site got ${status}`)
    },
  },
  {
    name: 'a token file that is removed',
    attacker: 'local user',
    setup: withTokenFileOfItsOwn,
    longOnly: true,
    async run(scene) {
      const { target } = scene
      await rm(target.users.path)
      await sleep(10_000)
      scene.check(target.log.includes(target.users.path), 'the log does not name the missing file')
      const { text } = await call(target, { path: '/metrics', as: 'neighbour' })
      const failing = /^setpoint_file_failing_seconds\{file="token-file"\} (\S+)$/m.exec(text)?.[1]
      scene.check(Number(failing) > 0, `the metric of the missing file is ${failing}`)
      await target.users.write()
    },
  },
]
