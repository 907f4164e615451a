import { type CheckReport, checkDefaults, checkStore, type Finding, problems } from '../operations/index.ts'
import { exitCodes } from './exit-codes.ts'
import type { CheckOptions } from './flags-check.ts'
import { interruption } from './interruption.ts'
import { describeStore, withStore } from './open-store.ts'
import { countOf, ProgressLine } from './progress-line.ts'

/**
 * Checks a store, and prints what it finds as it finds it. The exit code is 1 if problems are left.
 * @throws the errors of the store
 */
export async function check(options: CheckOptions): Promise<void> {
  const { store, encryption, repair, dropSigningKeys, output } = options
  const progress = new ProgressLine()
  const signal = interruption()
  const report = await withStore(
    store,
    storage =>
      checkStore({
        storage,
        repair,
        dropSigningKeys,
        signal,
        onFinding: finding => {
          progress.clear()
          if (output === 'text') process.stdout.write(lineOf(finding))
        },
        onProgress: keys => progress.show(() => `checked ${countOf(keys, 'key')}`),
      }),
    encryption,
  )
  progress.clear()
  process.stdout.write(
    output === 'json' ? `${JSON.stringify(report, undefined, 2)}\n` : summaryOf(report, describeStore(store)),
  )
  if (report.problems > 0) process.exitCode = exitCodes.failure
}

/** `orphaned reservation unique/…: … (repaired)` */
function lineOf({ problem, key, message, repaired }: Finding): string {
  return `${problem} ${key}: ${message}${repaired ? ' (repaired)' : ''}\n`
}

function summaryOf(report: CheckReport, store: string): string {
  const { objects, reservations, kinds, counts, findings, revision } = report
  const found = Object.entries(counts).map(
    ([problem, count]) => `  ${problem} (${count.toLocaleString('en-US')}): ${remedyOf(problem)}\n`,
  )
  const total = report.problems + report.repaired
  const hidden = total - findings.length
  return [
    ...(hidden > 0 ? [`(${hidden} more; only the first ${checkDefaults.findings} are shown)\n`] : []),
    ...(total > 0 ? ['\n'] : []),
    `Checked ${store} at version ${revision}: ${countOf(objects, 'object')} of ${countOf(kinds, 'kind')}, ${countOf(reservations, 'reserved value')}.\n`,
    total === 0 ? 'No problems.\n' : `${countOf(total, 'problem')}, ${report.repaired} repaired.\n`,
    ...found,
  ].join('')
}

function remedyOf(name: string): string {
  return Object.entries(problems).find(([problem]) => problem === name)?.[1] ?? ''
}
