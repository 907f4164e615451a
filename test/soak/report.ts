import type { Verdict } from './cast.ts'
import type { Say } from './say.ts'

/** Prints the violations, and whether the event that was dropped on purpose was found. Returns true if all is well. */
export function report({ violations, planted }: Verdict, say: Say): boolean {
  for (const { guarantee, seenBy, message } of violations)
    say(`VIOLATION (${guarantee}${seenBy === undefined ? '' : `, ${seenBy}`}): ${message}`)
  const [found, ...more] = planted.found
  const isFound =
    found?.guarantee === 'reliable' && more.length === 0 && found.message.includes(`${planted.version}`)
  if (isFound) say(`the event that was dropped on purpose was found: ${found.message}`)
  else
    say(
      `VIOLATION: the event of version ${planted.version} was dropped on purpose; found: ${JSON.stringify(planted.found)}`,
    )
  say(violations.length === 0 ? 'no violation' : `${violations.length} violations`)
  return isFound && violations.length === 0
}
