import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findKubernetesSpecs } from '../../scripts/clients.mjs'
import { ClientWorld } from '../support/client-world.ts'
import { arrayOf, fieldsOf, numberOf, textOf } from '../support/json.ts'
import { findKubectl } from '../support/kubectl.ts'
import type { Store } from '../support/worlds.ts'
import { differing, namesOf, passing } from './e2e-specs.ts'
import { startSaying } from './say.ts'

/** Why each spec that ran has failed, or undefined if it has passed. */
type Results = ReadonlyMap<string, string | undefined>

/**
 * Runs Kubernetes' end-to-end specs against a server with TLS, as a user who may do everything.
 * @returns true if those of `passing` pass, and those of `differing` fail as it says
 */
export async function reportSpecs(store: Store): Promise<boolean> {
  const say = startSaying(store)
  const program = await findKubernetesSpecs()
  const kubectl = await findKubectl('1.34')
  const expected = new Map<string, string | undefined>([
    ...namesOf(passing).map(name => [name, undefined] as const),
    ...differing.flatMap(({ specs, failure }) => namesOf(specs).map(name => [name, failure] as const)),
  ])
  say(`${expected.size} specs`)
  const results = await run(store, program, kubectl, [...expected.keys()])
  const problems = [...expected].flatMap(([name, failure]) => problemOf(name, failure, results))
  for (const problem of problems) say(`VIOLATION: ${problem}`)
  const passed = [...results.values()].filter(failure => failure === undefined).length
  say(`${passed} of ${results.size} specs pass; ${problems.length} violations`)
  return problems.length === 0
}

/** @param expected a part of the message with which it must fail; undefined if it must pass */
function problemOf(name: string, expected: string | undefined, results: Results): string[] {
  if (!results.has(name)) return [`${name} does not run`]
  const failure = results.get(name)
  if (expected === undefined) return failure === undefined ? [] : [`${name} fails: ${failure}`]
  if (failure === undefined) return [`${name} no longer differs`]
  return failure.includes(expected) ? [] : [`${name} fails for another reason: ${failure}`]
}

/** @throws Error with the end of the log if the program does not write its report */
async function run(
  store: Store,
  program: string,
  kubectl: string,
  specs: readonly string[],
): Promise<Results> {
  // kubectl keeps its cache of discovery in the home folder.
  const home = await mkdtemp(join(tmpdir(), 'setpoint-e2e-'))
  const world = await ClientWorld.start({ store, secure: true }, ['empty-plugin'])
  try {
    const report = join(home, 'report.json')
    const flags = [
      ...['--provider=skeleton', `--kubectl-path=${kubectl}`, '--ginkgo.no-color', '--ginkgo.timeout=30m'],
      // There are no pods, which would need the service account, and have logs.
      ...['--e2e-verify-service-account=false', '--dump-logs-on-failure=false'],
      ...[`--ginkgo.json-report=${report}`, ...specs.map(name => `--ginkgo.focus=^e2e ${escaped(name)}$`)],
    ]
    const { stdout, stderr } = await world.run(program, flags, { HOME: home }).ended
    const text = await readFile(report, 'utf8').catch((error: Error) => {
      throw new Error(`${error.message}: ${stderr}${stdout.slice(-4_000)}`)
    })
    return resultsOf(JSON.parse(text))
  } finally {
    await world.end()
    await rm(home, { recursive: true, force: true })
  }
}

/** @param report Ginkgo's, which also has the specs that were not wanted */
function resultsOf(report: unknown): Results {
  const specs = arrayOf(report).flatMap(suite => arrayOf(fieldsOf(suite).SpecReports).map(fieldsOf))
  return new Map(
    specs
      .filter(({ NumAttempts: attempts }) => numberOf(attempts) > 0)
      .map(({ ContainerHierarchyTexts: containers, LeafNodeText: leaf, State: state, Failure: failure }) => [
        [...arrayOf(containers).map(textOf), textOf(leaf)].join(' '),
        state === 'passed' ? undefined : textOf(fieldsOf(failure).Message),
      ]),
  )
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}
