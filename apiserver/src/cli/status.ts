import { type StatusReport, statusOf } from '../operations/index.ts'
import { exitCodes } from './exit-codes.ts'
import type { StatusOptions } from './flags-status.ts'
import { serverTransport } from './server-transport.ts'

/** Prints how a control plane stands. The exit code is 1 if something is not well. */
export async function status(options: StatusOptions): Promise<void> {
  const { servers, serverToken, serverCa, reservedDomain, lease, output } = options
  const asked = servers.map(url => ({
    url,
    transport: serverTransport({ server: url, serverToken, serverCa }),
  }))
  try {
    const report = await statusOf({ servers: asked, reservedDomain, lease, nowMs: Date.now() })
    const text = output === 'json' ? `${JSON.stringify(report, undefined, 2)}\n` : textOf(report)
    process.stdout.write(text)
    if (!report.well) process.exitCode = exitCodes.failure
  } finally {
    for (const { transport } of asked) transport.close()
  }
}

/** Returns the report for people: first what is not well, and then tables. */
function textOf({ problems, servers, leader, store, plugins, certificates }: StatusReport): string {
  const parts = [
    problems.length === 0 ? 'All is well.\n' : problems.map(problem => `Not well: ${problem}\n`).join(''),
    tableOf(
      ['SERVER', 'VERSION', 'ROLE', 'READY', 'BEHIND', 'EVENT LOOP', 'CONTROLLERS'],
      servers.map(({ url, version, role, ready, behind, eventLoopSeconds, leads }) => [
        url,
        version ?? '?',
        role ?? '?',
        ready ? 'yes' : 'no',
        behind === null ? '?' : String(behind),
        eventLoopSeconds === null ? '?' : `${Math.round(eventLoopSeconds * 1000)} ms`,
        leads === null ? (role === 'all' ? 'here' : '-') : leads ? 'leading' : 'standing by',
      ]),
    ),
  ]
  if (leader !== null) {
    const { lease, holder, renewedSeconds } = leader
    parts.push(
      tableOf(
        ['LEASE', 'HOLDER', 'RENEWED'],
        [[lease, holder ?? '-', renewedSeconds === null ? '-' : `${renewedSeconds} s ago`]],
      ),
    )
  }
  if (store !== null) {
    const { kind, sizeBytes, usedBytes, quotaBytes, diskFreeBytes, full } = store
    parts.push(
      tableOf(
        ['STORE', 'FILE', 'IN USE', 'QUOTA', 'DISK FREE', 'FULL'],
        [[kind, ...[sizeBytes, usedBytes, quotaBytes, diskFreeBytes].map(sizeOf), full ? 'yes' : 'no']],
      ),
    )
  }
  const rows = plugins.map(({ name, phase, version, problems }) => [
    name,
    phase,
    version ?? '-',
    String(problems.length),
  ])
  parts.push(tableOf(['PLUGIN', 'PHASE', 'VERSION', 'PROBLEMS'], rows))
  const expiries = certificates.map(({ server, certificate, expires }) => [certificate, server, expires])
  parts.push(tableOf(['CERTIFICATE', 'SERVER', 'EXPIRES'], expiries))
  return parts.filter(part => part !== '').join('\n')
}

/** Returns columns of equal width, or nothing without rows. */
function tableOf(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return ''
  const all = [headings, ...rows]
  const widths = headings.map((_, at) => Math.max(...all.map(row => (row[at] ?? '').length)))
  return all
    .map(row =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .map(line => `${line}\n`)
    .join('')
}

function sizeOf(bytes: number | null): string {
  if (bytes === null) return '-'
  return bytes < 2 ** 30 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${(bytes / 2 ** 30).toFixed(1)} GiB`
}
