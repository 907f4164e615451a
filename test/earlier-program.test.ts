import { expect, it } from 'vitest'
import { findEarlierProgram } from '../scripts/earlier-program.mjs'

it('says how to get a commit that the clone does not have', async () => {
  const commit = 'f'.repeat(40)
  await expect(findEarlierProgram(commit)).rejects.toThrow(
    `The program of commit ${commit} cannot be built: this repository does not have it. A shallow clone lacks old commits; \`git fetch --unshallow\` gets them.`,
  )
})
