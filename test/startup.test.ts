import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { imports } from './support/tools.ts'

const pathOf = (name: string) => fileURLToPath(new URL(`../apiserver/src/${name}`, import.meta.url))

test.each(['cli/server.ts', 'cli/controllers.ts', 'http/index.ts', 'model/schema-compiler.ts'])(
  '`--help` and `token` do not load %s, only `serve` does',
  module => {
    expect(imports(pathOf('cli/main.ts'), pathOf('cli/flags.ts'))).toBe(true)
    expect(imports(pathOf('cli/main.ts'), pathOf(module))).toBe(false)
  },
)
