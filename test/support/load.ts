import type { Answer, Api } from './api.ts'
import { isFields } from './json.ts'
import { itemsOf } from './kinds.ts'
import type { Follower } from './watch.ts'

/**
 * Writers that remember what they were told about each of their writes, and the comparison of that with what
 * watchers and the store say afterwards.
 */

/** What the client knows of a write. */
export type Outcome =
  /** Answered with success. */
  | { readonly kind: 'acknowledged'; readonly version: string }
  /** Answered with a refusal: it must never show. */
  | { readonly kind: 'refused'; readonly status: number }
  /** No answer, or 504: it happened or not. */
  | { readonly kind: 'unknown' }

export interface Write {
  readonly verb: 'create' | 'update' | 'delete'
  readonly name: string
  /** Unique: what the write puts into `spec.op`. Of a delete '' */
  readonly op: string
  readonly outcome: Outcome
}

/** Several writers at work on items of their own, until they are stopped. */
export class Load {
  readonly writes: Write[] = []
  readonly #writers: Promise<void>[]
  #stopped = false
  #acknowledged = 0
  #wake: (() => void)[] = []

  constructor(api: () => Api, writers = 8) {
    this.#writers = Array.from({ length: writers }, (_, n) => this.#write(api, n))
  }

  get acknowledged(): number {
    return this.#acknowledged
  }

  /** Resolves once this many more writes have been acknowledged. */
  async progress(more: number): Promise<void> {
    const goal = this.#acknowledged + more
    while (this.#acknowledged < goal) await new Promise<void>(resolve => this.#wake.push(resolve))
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#writers)
  }

  /** Creates, updates a few times and deletes, over and over, each time another object. */
  async #write(api: () => Api, writer: number): Promise<void> {
    for (let round = 0; !this.#stopped; round++) {
      const name = `w${writer}-${round}`
      const op = (step: number) => `${name}-${step}`
      if (
        !(await this.#until('create', name, op(0), () =>
          api().post(itemsOf(api()).path, body(api(), name, op(0))),
        ))
      )
        continue
      for (let step = 1; step <= 3; step++) {
        await this.#until('update', name, op(step), () =>
          api().put(itemsOf(api()).at(name), body(api(), name, op(step))),
        )
      }
      if (round % 2 === 0) await this.#until('delete', name, '', () => api().delete(itemsOf(api()).at(name)))
    }
  }

  /**
   * Makes one write, and again while it is refused because nobody is there. Answers whether it was acknowledged:
   * what becomes of an unknown one is not this writer's business.
   */
  async #until(verb: Write['verb'], name: string, op: string, send: () => Promise<Answer>): Promise<boolean> {
    const outcome = await outcomeOf(send)
    this.writes.push({ verb, name, op, outcome })
    if (outcome.kind === 'acknowledged') this.#acknowledged += 1
    else await new Promise(resolve => setTimeout(resolve, 10))
    const waiting = this.#wake
    this.#wake = []
    for (const wake of waiting) wake()
    return outcome.kind === 'acknowledged'
  }
}

function body(api: Api, name: string, op: string) {
  return itemsOf(api).body(name, { op })
}

async function outcomeOf(send: () => Promise<Answer>): Promise<Outcome> {
  try {
    const { status, body: answer, text } = await send()
    if (status === 504) return { kind: 'unknown' }
    if (status >= 400 && status < 500) return { kind: 'refused', status }
    if (status === 503) return { kind: 'refused', status }
    if (status >= 500) throw new Error(`a write was answered with ${status}: ${text}`)
    const version = isFields(answer) && isFields(answer.metadata) ? answer.metadata.version : undefined
    if (typeof version !== 'string') throw new Error(`an answer without a version: ${text}`)
    return { kind: 'acknowledged', version }
  } catch (error) {
    // Refused by the kernel: nobody listens, nothing was sent.
    if (codeOf(error) === 'ECONNREFUSED') return { kind: 'refused', status: 0 }
    if (error instanceof TypeError) return { kind: 'unknown' }
    throw error
  }
}

function codeOf(error: unknown): unknown {
  const cause = error instanceof Error ? error.cause : undefined
  return isFields(cause) || cause instanceof Error ? Reflect.get(cause, 'code') : undefined
}

/**
 * What is wrong with what a watcher has seen, given what the writers were told: one line for each fault. Nothing may
 * be lost, doubled or out of order, and what was refused must not show.
 */
export function faultsOf(follower: Follower, writes: readonly Write[]): string[] {
  const faults = [...follower.problems]
  if (follower.expired > 0) faults.push(`the watch was answered 410 ${follower.expired} times`)
  const byVersion = new Map<string, { name: string; op: unknown; type: string }>()
  const ops = new Map<string, number>()
  for (const { version, name, type, raw } of follower.changes) {
    const spec = isFields(raw.object) && isFields(raw.object.spec) ? raw.object.spec : {}
    if (byVersion.has(version)) faults.push(`version ${version} (${type} ${name}) was seen twice`)
    byVersion.set(version, { name, op: spec.op, type })
    if (type !== 'DELETED') ops.set(String(spec.op), (ops.get(String(spec.op)) ?? 0) + 1)
  }
  for (const { verb, name, op, outcome } of writes) {
    const seen = ops.get(op) ?? 0
    if (seen > 1) faults.push(`${verb} ${name} (${op}) was seen ${seen} times`)
    if (outcome.kind === 'refused' && op !== '' && seen > 0)
      faults.push(`${verb} ${name} (${op}) was refused with ${outcome.status}, and happened`)
    if (outcome.kind !== 'acknowledged') continue
    const event = byVersion.get(outcome.version)
    const type = { create: 'ADDED', update: 'MODIFIED', delete: 'DELETED' }[verb]
    if (event === undefined)
      faults.push(`${verb} ${name} of version ${outcome.version} was acknowledged, and never seen`)
    else if (event.name !== name || event.type !== type || (verb !== 'delete' && event.op !== op))
      faults.push(
        `version ${outcome.version} is ${event.type} ${event.name} (${event.op}), not ${type} ${name} (${op})`,
      )
  }
  return faults
}

/** The objects that a watcher's initial state and events amount to: name to version. */
export function replay(follower: Follower): Map<string, string> {
  const state = new Map(follower.initial)
  for (const { type, name, version } of follower.changes) {
    if (type === 'DELETED') state.delete(name)
    else state.set(name, version)
  }
  return state
}
