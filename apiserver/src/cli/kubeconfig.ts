import { open } from 'node:fs/promises'
import { dump } from 'js-yaml'
import type { KubeconfigOptions } from './options.ts'

/**
 * Writes the kubeconfig to its file, readable by its owner only, or to standard output. Warnings go to standard error.
 */
export async function printKubeconfig(options: KubeconfigOptions): Promise<void> {
  const text = kubeconfigOf(options)
  const { server, token, output } = options
  if (token !== undefined && server.startsWith('http:')) {
    process.stderr.write(
      'setpoint: kubectl sends no token over plain HTTP; serve HTTPS (--tls-cert and --tls-key) or give the https URL with --server\n',
    )
  }
  if (output === undefined) {
    process.stdout.write(text)
    return
  }
  const file = await open(output, 'w', 0o600)
  try {
    // The mode above is only for a new file.
    await file.chmod(0o600)
    await file.writeFile(text)
  } finally {
    await file.close()
  }
}

const name = 'setpoint'

/** Returns a kubeconfig, as YAML, with one context. */
function kubeconfigOf({
  server,
  ca,
  token,
  certificate,
}: Pick<KubeconfigOptions, 'server' | 'ca' | 'token' | 'certificate'>): string {
  const cluster = {
    server,
    'certificate-authority-data': ca && base64(ca),
    // The JavaScript client accepts a plain HTTP server only with this.
    ...(server.startsWith('http:') && { 'insecure-skip-tls-verify': true }),
  }
  const user = {
    token,
    'client-certificate-data': certificate && base64(certificate.cert),
    'client-key-data': certificate && base64(certificate.key),
  }
  return dump({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster }],
    users: [{ name, user }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  })
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}
