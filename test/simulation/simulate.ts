import { fork } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type Plan, planOf } from './plan.ts'
import { CpuMeter, type Figures, isFigures, Progress } from './progress.ts'
import { type Run, runPlan } from './run-plan.ts'
import { shrink } from './shrink.ts'
import { planText, violationText } from './text.ts'
import { openWorld } from './world/open-world.ts'

/** See docs/maintainers/simulation.md. */
const help = `npm run simulate -- [options]

  --seeds N         how many seeds to run (200 by default)
  --minutes N       for how long to run seeds, or at most so long together with --seeds
  --seed N          runs one seed, or begins with it together with --seeds or --minutes
  --steps N         steps of each plan (20 to 99 by default): more steps cost less each, and hide more from each other
  --jobs N          processes that share the seeds (by default one for each processor)
  --plan FILE       runs a plan that an earlier failure wrote; may be given several times
  --trace           prints the whole trace
  --quick           stops at the first failure without shrinking its plan
  --no-shrink       reports plans that fail as they are: to shrink a long one takes minutes
  --mutations [X]   says after how many seeds each mutation of the product is found (whose name contains X)
`

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    minutes: { type: 'string' },
    seed: { type: 'string' },
    steps: { type: 'string' },
    jobs: { type: 'string' },
    /** Of a process that shares the seeds: it runs each so many-th one. */
    every: { type: 'string', default: '1' },
    plan: { type: 'string', multiple: true },
    trace: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    'no-shrink': { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
const say = (text: string) => void process.stdout.write(`${text}\n`)
for (const name of ['seeds', 'minutes', 'seed', 'steps', 'jobs', 'every'] as const)
  if (values[name] !== undefined && !(Number(values[name]) >= 0)) {
    process.stderr.write(`--${name} must be a number, not ${values[name]}\n`)
    process.exit(2)
  }

if (values.help) say(help)
else if (values.plan !== undefined) process.exitCode = await playEach(values.plan)
else if (values.seed !== undefined && values.seeds === undefined && values.minutes === undefined)
  process.exitCode = await playOne(planOf(Number(values.seed), stepsAsked()))
else process.exitCode = await playMany()

async function playEach(files: readonly string[]): Promise<number> {
  let exitCode = 0
  for (const file of files) exitCode = Math.max(exitCode, await playOne(await readPlan(file)))
  return exitCode
}

async function playOne(plan: Plan): Promise<number> {
  const run = await runPlan(plan, openWorld, { keepTrace: values.trace })
  if (values.trace) say(run.lines.join('\n'))
  say(`seed ${plan.seed}: ${run.operations} operations, trace ${run.traceHash}`)
  if (run.violations.length === 0) return 0
  await report(plan, run)
  return 1
}

async function playMany(): Promise<number> {
  // Random choices of the run come from the seed, and a new run takes new seeds.
  const first = values.seed === undefined ? Date.now() % 1_000_000_000 : Number(values.seed)
  const count = Number(values.seeds ?? (values.minutes === undefined ? 200 : Number.POSITIVE_INFINITY))
  if (process.send !== undefined) return await playSome(first, count, figures => process.send?.(figures))
  const progress = new Progress(say)
  say(`the first seed is ${first}`)
  const jobs = values.quick ? 1 : Math.min(count, Number(values.jobs ?? availableParallelism()))
  const add = (figures: Figures) => progress.add(figures)
  const codes =
    jobs === 1
      ? [await playSome(first, count, add)]
      : await Promise.all(
          Array.from({ length: jobs }, (_, n) =>
            shareOf({ first: first + n, count: Math.ceil((count - n) / jobs), jobs }, add),
          ),
        )
  if (!values.quick) progress.end()
  else if (progress.failed === 0) say(`not found in ${progress.runs} seeds`)
  return Math.max(...codes)
}

/** Runs seeds in a process of its own. Resolves with its exit code. */
function shareOf(
  { first, count, jobs }: { readonly first: number; readonly count: number; readonly jobs: number },
  add: (figures: Figures) => void,
): Promise<number> {
  const options = ['--seed', String(first), '--every', String(jobs)]
  if (count !== Number.POSITIVE_INFINITY) options.push('--seeds', String(count))
  if (values.minutes !== undefined) options.push('--minutes', values.minutes)
  if (values.steps !== undefined) options.push('--steps', values.steps)
  if (values['no-shrink']) options.push('--no-shrink')
  const child = fork(fileURLToPath(import.meta.url), options)
  child.on('message', message => {
    if (isFigures(message)) add(message)
  })
  return new Promise(resolve => child.once('exit', code => resolve(code ?? 1)))
}

/** Runs seeds one after another. Returns 1 if a judge complained. */
async function playSome(first: number, count: number, add: (figures: Figures) => void): Promise<number> {
  const deadline =
    values.minutes === undefined
      ? Number.POSITIVE_INFINITY
      : performance.now() + Number(values.minutes) * 60_000
  const meter = new CpuMeter()
  let code = 0
  for (let n = 0; n < count && performance.now() < deadline; n++) {
    const plan = planOf(first + n * Number(values.every), stepsAsked())
    const run = await runPlan(plan, openWorld)
    const { operations, simulatedMs } = run
    const failed = run.violations.length > 0
    add({ operations, simulatedMs, cpuMs: meter.lap(), failed })
    if (!failed) continue
    code = 1
    if (values.quick) {
      const [one] = run.violations
      say(`found after ${n + 1} seeds (seed ${plan.seed}): ${one && violationText(one)}`)
      return code
    }
    await report(plan, run)
  }
  return code
}

function stepsAsked(): number | undefined {
  return values.steps === undefined ? undefined : Number(values.steps)
}

/** Prints the words of the judges, the smallest plan that they complain about, and its trace. */
async function report(plan: Plan, run: Run): Promise<void> {
  say(`\nseed ${plan.seed} failed:`)
  for (const violation of run.violations.slice(0, 10)) say(`  ${violationText(violation)}`)
  const again = await runPlan(plan, openWorld)
  if (again.traceHash !== run.traceHash)
    say('  A second run went differently: the simulation is not deterministic.')
  const judges = new Set(run.violations.map(({ judge }) => judge))
  const steps = values['no-shrink']
    ? plan.steps
    : await shrink(plan.steps, async some => {
        const { violations } = await runPlan({ ...plan, steps: some }, openWorld)
        return violations.some(({ judge }) => judges.has(judge))
      })
  const small = { ...plan, steps }
  const shrunk = await runPlan(small, openWorld, { keepTrace: true })
  if (!values['no-shrink'])
    say(`\nthe plan, with ${steps.length} of ${plan.steps.length} steps:\n${planText(small)}`)
  for (const violation of shrunk.violations.slice(0, 10)) say(`  ${violationText(violation)}`)
  const folder = '.simulation/failures'
  await mkdir(folder, { recursive: true })
  await writeFile(`${folder}/${plan.seed}.json`, `${JSON.stringify(small, undefined, 2)}\n`)
  await writeFile(`${folder}/${plan.seed}.trace`, `${shrunk.lines.join('\n')}\n`)
  say(`\nThe trace is in ${folder}/${plan.seed}.trace. Run it again:`)
  say(`  npm run simulate -- --plan ${folder}/${plan.seed}.json --trace\n`)
}

async function readPlan(file: string): Promise<Plan> {
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    process.stderr.write(
      `failed to read the plan ${file}: ${error instanceof Error ? error.message : error}\n`,
    )
    process.exit(2)
  }
}
