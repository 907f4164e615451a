import type { ComponentType } from 'preact'
import { useState } from 'preact/hooks'
import { wordsOf } from '../api/http.ts'
import { useAsync } from './use-async.ts'

/** Returns a component whose code is loaded when it is shown first. */
export function lazy(load: () => Promise<ComponentType>): ComponentType {
  return function Lazy() {
    const [problem, setProblem] = useState('')
    const Loaded = useAsync(load, [], error => setProblem(wordsOf(error)))
    if (problem !== '')
      return (
        <div role="alert" class="alert">
          {problem}
        </div>
      )
    return Loaded === undefined ? <p class="quiet">Loading…</p> : <Loaded />
  }
}
