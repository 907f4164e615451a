import { once } from 'node:events'
import { createServer, get } from 'node:http'
import { expect, test } from 'vitest'
import { TargetDeniedError, TargetPolicy } from './target-policy.ts'
import { type TargetSettings, targetSettings } from './target-settings.ts'

function policyWith(settings: Partial<TargetSettings> = {}): TargetPolicy {
  const { default: deniedNetworks } = targetSettings.deniedNetworks
  return new TargetPolicy({ allowedHosts: [], allowedNetworks: [], deniedNetworks, ...settings })
}

/** Returns the addresses that a request to a URL connects to. */
async function addressesOf(policy: TargetPolicy, url: string): Promise<unknown> {
  const { hostname } = new URL(url)
  const lookup = await policy.resolve(hostname)
  return new Promise(resolve => lookup(hostname, { all: true }, (_error, addresses) => resolve(addresses)))
}

test.each([
  ['loopback', 'http://127.0.0.1/'],
  ['loopback as one number', 'http://2130706433/'],
  ['loopback in hexadecimal', 'http://0x7f.1/'],
  ['loopback by name', 'http://localhost/'],
  ['loopback by name with a dot', 'http://localhost./'],
  ['loopback', 'http://[::1]/'],
  ['unspecified', 'http://0.0.0.0/'],
  ['unspecified', 'http://[::]/'],
  ['link-local, with AWS, Azure, Google and Oracle', 'http://169.254.169.254/latest/meta-data'],
  ['link-local', 'http://[fe80::1]/'],
  ['Alibaba', 'http://100.100.100.200/'],
  ['Alibaba', 'http://[fd00:100::100:200]/'],
  ['AWS', 'http://[fd00:ec2::254]/'],
  ['AWS, the credentials of pods', 'http://[fd00:ec2::23]/'],
  ['Azure', 'http://168.63.129.16/'],
  ['Google', 'http://[fd20:ce::254]/'],
  ['Linode', 'http://[fd00:a9fe:a9fe::1]/'],
  ['Oracle', 'http://192.0.0.192/'],
  ['Oracle', 'http://[fd00:c1::a9fe:a9fe]/'],
  ['Scaleway', 'http://[fd00:42::42]/'],
  ['multicast', 'http://224.0.0.1/'],
  ['multicast', 'http://[ff02::1]/'],
  ['broadcast', 'http://255.255.255.255/'],
  ['mapped loopback', 'http://[::ffff:127.0.0.1]/'],
  ['mapped link-local', 'http://[::ffff:a9fe:a9fe]/'],
  ['mapped Alibaba', 'http://[::ffff:100.100.100.200]/'],
  ['compatible loopback', 'http://[::127.0.0.1]/'],
  ['translated loopback', 'http://[::ffff:0:127.0.0.1]/'],
  ['NAT64 of link-local', 'http://[64:ff9b::169.254.169.254]/'],
  ['NAT64 of Azure', 'http://[64:ff9b::a83f:8110]/'],
  ['NAT64 of a site', 'http://[64:ff9b:1::a9fe:a9fe]/'],
  ['Teredo', 'http://[2001:0:7f00:1::]/'],
  ['6to4 of loopback', 'http://[2002:7f00:1::]/'],
])('by default a target is denied: %s, %s', async (_what, url) => {
  await expect(addressesOf(policyWith(), url)).rejects.toThrow(TargetDeniedError)
})

test.each([
  'http://10.1.2.3/',
  'http://100.64.0.1/',
  'http://192.0.2.1/',
  'http://[2001:db8::1]/',
  'http://[2001:4860::8888]/',
  'http://[fd12:3456::1]/',
  'http://[64:ff9b::c000:201]/',
  'http://[::ffff:c000:201]/',
])('by default %s is allowed', async url => {
  const address = new URL(url).hostname.replace(/[[\]]/g, '')
  const family = address.includes(':') ? 6 : 4
  expect(await addressesOf(policyWith(), url)).toEqual([{ address, family }])
})

test('an address with a zone is judged without it', async () => {
  await expect(policyWith().resolve('fe80::1%lo')).rejects.toThrow(TargetDeniedError)
})

test('only allowed hosts are targets, if there are any', async () => {
  const policy = policyWith({ allowedHosts: ['192.0.2.1', '*.Example.com'], deniedNetworks: [] })
  await expect(policy.resolve('192.0.2.1')).resolves.toBeTypeOf('function')
  await expect(policy.resolve('192.0.2.2')).rejects.toThrow('allowedHosts does not include 192.0.2.2')
  await expect(policy.resolve('example.com')).rejects.toThrow(TargetDeniedError)
  await expect(policy.resolve('badexample.com')).rejects.toThrow(TargetDeniedError)
})

test('allowed networks are exceptions from the denied ones, in every form', async () => {
  const policy = policyWith({ allowedNetworks: ['127.0.0.1/32', 'fd00:ec2::253/128'] })
  for (const host of ['127.0.0.1', '[::ffff:127.0.0.1]', '[64:ff9b::127.0.0.1]', '[fd00:ec2::253]'])
    await expect(policy.resolve(host), host).resolves.toBeTypeOf('function')
  for (const host of ['127.0.0.2', '[::ffff:127.0.0.2]', '[fd00:ec2::254]', '169.254.169.254'])
    await expect(policy.resolve(host), host).rejects.toThrow(TargetDeniedError)
})

test('denied networks of the operator are denied behind NAT64, too', async () => {
  const policy = policyWith({ deniedNetworks: ['10.0.0.0/8'] })
  for (const host of ['10.1.2.3', '[::ffff:a01:203]', '[64:ff9b::a01:203]'])
    await expect(policy.resolve(host), host).rejects.toThrow(TargetDeniedError)
  await expect(policy.resolve('[64:ff9b::b01:203]')).resolves.toBeTypeOf('function')
})

test.each(['10.0.0.0', '10.0.0.0/33', '::/129', 'nonsense/8', '10.0.0.0/8/8', '10.0.0.0/'])(
  'the network %s is refused',
  network => {
    expect(() => policyWith({ deniedNetworks: [network] })).toThrow('deniedNetworks')
    expect(() => policyWith({ allowedNetworks: [network] })).toThrow('allowedNetworks')
  },
)

test('a request connects to the addresses that were checked, whatever the name resolves to then', async () => {
  await using server = createServer((_request, response) => response.end())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('the server does not listen')
  const lookup = await policyWith({ allowedNetworks: ['127.0.0.1/32'] }).resolve('127.0.0.1')
  // No resolver knows this name.
  const request = get({ host: 'rebound.invalid', port: address.port, lookup, agent: false })
  const [response] = await once(request, 'response')
  expect(response.statusCode).toBe(200)
  expect(response.socket.remoteAddress).toBe('127.0.0.1')
  response.resume()
})

test('an abort does not wait for the resolver', async () => {
  const reason = new Error('enough')
  await expect(policyWith().resolve('example.invalid', AbortSignal.abort(reason))).rejects.toBe(reason)
})
