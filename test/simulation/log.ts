import type { Call, CallOf, Message, Outcome, Resource, Selection, WatchRecord } from './history.ts'

/** Collects what clients do, as it happens. */
export class CallLog {
  readonly calls: Call[] = []
  readonly watches: WatchRecord[] = []
  #last: number

  constructor(last = 0) {
    this.#last = last
  }

  /** Returns an empty one, whose calls have later numbers. */
  next(): CallLog {
    return new CallLog(this.#last)
  }

  nextId(): number {
    return ++this.#last
  }

  /** Records a call that has no response yet. Returns the function that records its outcome. */
  begin(call: CallOf): (outcome: Outcome) => void {
    const index = this.calls.push({ ...call, outcome: { type: 'pending' } }) - 1
    return outcome => {
      this.calls[index] = { ...call, outcome }
    }
  }

  /** Records a watch that is open. */
  open(watch: WatchStart): { message(message: Message): void; end(end: WatchRecord['end']): void } {
    const messages: Message[] = []
    const index = this.watches.push({ ...watch, messages }) - 1
    return {
      message: message => void messages.push(message),
      end: end => {
        this.watches[index] = { ...watch, messages, end }
      },
    }
  }
}

interface WatchStart {
  readonly id: number
  readonly watcher: string
  readonly client: number
  readonly server: number
  readonly at: number
  readonly resource: Resource
  readonly token: string | undefined
  readonly selection: Selection
  readonly from: number | undefined
}
