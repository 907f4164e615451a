import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { guarantees } from './guarantees.ts'

it('docs/maintainers/testing.md has the meaning of every guarantee', async () => {
  const page = await readFile(join(import.meta.dirname, '../../../docs/maintainers/testing.md'), 'utf8')
  const rows = Object.entries(guarantees).map(([name, meaning]) => `| ${name} | ${meaning} |`)
  expect(rows.filter(row => !page.includes(row))).toEqual([])
})
