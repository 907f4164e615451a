import { describe, expect, it } from 'vitest'
import { formatStart, linesOfServer } from './start-lines.ts'

const url = 'http://127.0.0.1:8090'
const local = linesOfServer(url, {
  store: { kind: 'embedded', dataDir: '.setpoint', compact: false },
  authentication: undefined,
})

describe('the lines at the start', () => {
  it('are one line for a program that waits for it', () => {
    expect(formatStart(local, { isTerminal: false, colour: false })).toBe(`setpoint listening on ${url}\n`)
  })

  it('tell a person where to look, where the data are, and that everybody here may call', () => {
    const text = formatStart(local, { isTerminal: true, colour: false })
    expect(text).toBe(`setpoint listening on ${url}

  ➜  API     ${url}/docs
  ➜  Data    ./.setpoint
  ➜  Access  all users of this machine may do everything (--token-file asks for tokens)
  ➜  Stop    Ctrl-C

`)
  })

  it('have colours on request, but not in the line that programs read', () => {
    const [line, ...rest] = formatStart(local, { isTerminal: true, colour: true }).split('\n')
    expect(line).toBe(`setpoint listening on ${url}`)
    expect(rest.join('\n')).toContain(`\u001b[36m${url}/docs\u001b[0m`)
  })

  it('name etcd and each way to authenticate', () => {
    const { facts } = linesOfServer(url, {
      store: {
        kind: 'etcd',
        endpoints: ['https://a:2379', 'https://b:2379'],
        prefix: '/setpoint',
        tls: {},
        credentials: undefined,
      },
      authentication: {
        tokenFile: { path: '/etc/setpoint/tokens.yaml', text: '' },
        clientCa: { path: '/etc/setpoint/ca.crt', text: '' },
        oidc: [],
      },
    })
    expect(facts?.map(({ text }) => text)).toEqual([
      `${url}/docs`,
      'etcd at https://a:2379, https://b:2379, below /setpoint',
      'callers with a token of /etc/setpoint/tokens.yaml, or a certificate of /etc/setpoint/ca.crt',
      'Ctrl-C',
    ])
  })
})
