import { open } from 'node:fs/promises'
import { makeToken, TokenList, TokenListError } from '../security/token-list.ts'
import { quote, reasonOf, UsageError } from './flags-values.ts'
import type { TokenOptions } from './options.ts'

/**
 * Makes a token, and prints it and its entry for the token file. The token is not stored, so every output has it; the
 * entry is left out if it goes to a file.
 * @throws UsageError if the file is not a valid token file; Error if it cannot be written. Nothing is printed then.
 */
export async function printToken({ user, output, file }: TokenOptions): Promise<void> {
  const { token, sha256, entry } = makeToken(user)
  if (file !== undefined) await appendEntry(file, entry)
  if (output === 'json') {
    const { name, groups } = user
    process.stdout.write(`${JSON.stringify({ user: name, groups, sha256, token })}\n`)
  } else if (output === 'token') {
    if (file === undefined) process.stderr.write(entry)
    process.stdout.write(`${token}\n`)
  } else {
    process.stderr.write(`The token of ${user.name}, which is not stored anywhere: ${token}\n`)
    process.stdout.write(entry)
  }
}

/**
 * Appends an entry in one write, so that the file keeps its owner and its mode, and loses nothing that another process
 * appends at the same time. A new file has mode 0600.
 */
async function appendEntry(path: string, entry: string): Promise<void> {
  try {
    const file = await open(path, 'a+', 0o600)
    try {
      const text = await file.readFile('utf8')
      const added = additionTo(text, entry)
      // An empty list in brackets takes no further line.
      if (added.replaces) await file.truncate()
      await file.appendFile(added.text)
      await file.sync()
    } finally {
      await file.close()
    }
  } catch (error) {
    if (error instanceof TokenListError)
      throw new UsageError(`--token-file: ${quote(path)} ${error.message}; nothing was added`, {
        cause: error,
      })
    throw new Error(`${quote(path)} cannot be written: ${reasonOf(error)}`, { cause: error })
  }
}

/** Returns what an entry adds to the text of a token file. @throws TokenListError */
function additionTo(text: string, entry: string): { readonly text: string; readonly replaces: boolean } {
  if (text.trim() === '') return { text: entry, replaces: false }
  const { size } = new TokenList(text)
  if (size === 0) return { text: entry, replaces: true }
  const added = text.endsWith('\n') ? entry : `\n${entry}`
  if (!isListOf(size + 1, `${text}${added}`))
    throw new TokenListError('must have each entry on lines of its own that begin with "- user:"')
  return { text: added, replaces: false }
}

function isListOf(size: number, text: string): boolean {
  try {
    return new TokenList(text).size === size
  } catch (error) {
    if (error instanceof TokenListError) return false
    throw error
  }
}
