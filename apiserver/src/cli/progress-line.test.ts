import { expect, it } from 'vitest'
import { countOf, ProgressLine, progressDefaults } from './progress-line.ts'

function at(isTTY: boolean) {
  let now = 0
  let text = ''
  const write = (more: string) => {
    text += more
    return true
  }
  const pass = (ms: number) => {
    now += ms
  }
  const clock = { now: () => now, monotonic: () => now, setTimeout: () => () => {} }
  const line = new ProgressLine({ isTTY, write }, clock)
  return { line, pass, text: () => text }
}

it('progress replaces one line of a terminal, and leaves none behind', () => {
  const { line, pass, text } = at(true)
  line.show(() => 'too early')
  pass(progressDefaults.terminalMs)
  line.show(() => '1 key')
  line.clear()
  line.clear()
  expect(text()).toBe('\r\x1b[K1 key\r\x1b[K')
})

it('progress is a line now and then where there is no terminal', () => {
  const { line, pass, text } = at(false)
  pass(progressDefaults.terminalMs)
  line.show(() => 'too early')
  pass(progressDefaults.linesMs)
  line.show(() => countOf(1_204, 'key'))
  line.clear()
  expect(text()).toBe('1,204 keys\n')
})
