import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, describe, expect, test } from 'vitest'
import { hasEnded, identityOfThisProcess } from './process-identity.ts'

const children: ChildProcess[] = []
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

/** Another process, and its identity. */
async function another(): Promise<{ child: ChildProcess; identity: string }> {
  const module = new URL('../../dist/manager/process-identity.js', import.meta.url)
  const code = `import(${JSON.stringify(String(module))}).then(m => console.log(m.identityOfThisProcess())); setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  const [line] = await once(child.stdout, 'data')
  return { child, identity: String(line).trim() }
}

describe.runIf(process.platform === 'linux')('a process on this machine', () => {
  test('has not ended while it runs or is stopped, and has ended after it was killed', async () => {
    const { child, identity } = await another()
    expect(hasEnded(identity)).toBe(false)
    child.kill('SIGSTOP')
    expect(hasEnded(identity)).toBe(false)
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(hasEnded(identity)).toBe(true)
  })

  test('has ended if its pid was reused', () => {
    const mine = identityOfThisProcess()
    expect(hasEnded(mine)).toBe(false)
    expect(hasEnded(mine.replace(/\.\d+$/, '.1'))).toBe(true)
  })
})

test.each([
  ['of another boot', (mine: string) => mine.replace(/_[0-9a-f-]{36}\./, `_${'0'.repeat(36)}.`)],
  ['of another pid namespace', (mine: string) => mine.replace(/\.\d+\.(\d+\.\d+)$/, '.1.$1')],
  ['without a place', () => 'host_00000000-0000-0000-0000-000000000000'],
  ['with a chosen name', () => 'me'],
])('nothing is known of a process %s', (_what, change) => {
  const ended = identityOfThisProcess().replace(/\.\d+$/, '.1')
  expect(hasEnded(change(ended))).toBe(false)
})

test('identities are unique', () => {
  expect(identityOfThisProcess()).not.toBe(identityOfThisProcess())
})
