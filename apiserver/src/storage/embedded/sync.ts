import { closeSync, fsyncSync, openSync } from 'node:fs'

/** Makes the content of a file durable. */
export function syncFile(path: string): void {
  syncPath(path, 'r+')
}

/** Makes the names in a folder durable, which LMDB does not. */
export function syncFolder(path: string): void {
  if (process.platform !== 'win32') syncPath(path, 'r')
}

function syncPath(path: string, flags: 'r' | 'r+'): void {
  const file = openSync(path, flags)
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
