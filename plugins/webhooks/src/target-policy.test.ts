import { expect, test } from 'vitest'
import { settings } from './settings.ts'
import { TargetDenied, TargetPolicy } from './target-policy.ts'

const { default: deniedNetworks } = settings.properties.deniedNetworks
const standard = new TargetPolicy({ allowedHosts: [], deniedNetworks })
const hostOf = (url: string) => new URL(url).hostname

test.each([
  'http://127.0.0.1/',
  'http://2130706433/',
  'http://0x7f.1/',
  'http://0.0.0.0/',
  'http://localhost/',
  'http://localhost./',
  'http://169.254.169.254/latest/meta-data',
  'http://[::1]/',
  'http://[::ffff:127.0.0.1]/',
  'http://[::ffff:a9fe:a9fe]/',
  'http://[fe80::1]/',
  'http://[::]/',
  'http://224.0.0.1/',
])('by default %s is denied', async url => {
  await expect(standard.resolve(hostOf(url))).rejects.toThrow(TargetDenied)
})

test.each(['http://10.1.2.3/', 'http://192.0.2.1/', 'http://[2001:db8::1]/'])('%s is allowed', async url => {
  const address = hostOf(url).replace(/[[\]]/g, '')
  expect(await standard.resolve(hostOf(url))).toEqual([{ address, family: address.includes(':') ? 6 : 4 }])
})

test('only allowed hosts are targets, if there are any', async () => {
  const policy = new TargetPolicy({ allowedHosts: ['192.0.2.1', '*.Example.com'], deniedNetworks: [] })
  await expect(policy.resolve('192.0.2.1')).resolves.toHaveLength(1)
  await expect(policy.resolve('192.0.2.2')).rejects.toThrow('allowedHosts does not include 192.0.2.2')
  await expect(policy.resolve('example.com')).rejects.toThrow(TargetDenied)
  await expect(policy.resolve('badexample.com')).rejects.toThrow(TargetDenied)
})

test.each(['10.0.0.0', '10.0.0.0/33', '::/129', 'nonsense/8', '10.0.0.0/8/8', '10.0.0.0/'])(
  'the network %s is refused',
  network => {
    expect(() => new TargetPolicy({ allowedHosts: [], deniedNetworks: [network] })).toThrow('deniedNetworks')
  },
)
