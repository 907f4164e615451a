import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { isRecord } from '@setpoint/controller-runtime/api'
import { UsageError } from './flags-values.ts'

/** The compilation of a plugin in TypeScript, by the compiler that the plugin depends on. */
export class TypeScriptBuild {
  /** Absolute path of the folder with the compiled files. */
  readonly output: string
  /** Absolute path of the plugin's folder. */
  readonly dir: string
  readonly #compiler: string

  private constructor(dir: string, compiler: string, output: string) {
    this.dir = dir
    this.#compiler = compiler
    this.output = output
  }

  /**
   * Returns the build of a plugin's folder, or undefined if it has no tsconfig.json, or one that only checks types.
   * @throws UsageError if it cannot be compiled: the compiler is not installed, or tsconfig.json is wrong
   */
  static async of(dir: string): Promise<TypeScriptBuild | undefined> {
    if (!existsSync(join(dir, 'tsconfig.json'))) return undefined
    const compiler = findCompiler(dir)
    const { isComplete, text } = await run(compiler, ['--showConfig'], dir)
    if (!isComplete) throw new UsageError(`${join(dir, 'tsconfig.json')}: ${text.trim().split('\n')[0]}`)
    const config: unknown = JSON.parse(text)
    const options = isRecord(config) && isRecord(config.compilerOptions) ? config.compilerOptions : {}
    if (options.noEmit === true) return undefined
    // A build next to the sources would look like a change of the sources.
    if (typeof options.outDir !== 'string')
      throw new UsageError(`${join(dir, 'tsconfig.json')}: setpoint dev needs "outDir", such as "dist"`)
    return new TypeScriptBuild(dir, compiler, resolve(dir, options.outDir))
  }

  /** Compiles the plugin. Returns the compiler's complaints, one a line; without any it has succeeded. */
  async compile(): Promise<string[]> {
    const { isComplete, text } = await run(this.#compiler, ['--pretty', 'false'], this.dir)
    if (isComplete) return []
    const lines = text.split('\n').filter(line => line.trim() !== '')
    return lines.length === 0 ? ['the compiler has failed'] : lines
  }
}

function findCompiler(dir: string): string {
  try {
    return createRequire(join(dir, 'package.json'))
      .resolve('typescript/package.json')
      .replace(/package\.json$/, 'bin/tsc')
  } catch (error) {
    throw new UsageError(
      `${dir} has a tsconfig.json, but no compiler; run \`npm install\` in it, with typescript among its devDependencies`,
      { cause: error },
    )
  }
}

function run(
  compiler: string,
  args: readonly string[],
  cwd: string,
): Promise<{ readonly isComplete: boolean; readonly text: string }> {
  return new Promise(done => {
    execFile(process.execPath, [compiler, ...args], { cwd }, (error, stdout, stderr) => {
      done({ isComplete: error === null, text: `${stdout}${stderr}` })
    })
  })
}
