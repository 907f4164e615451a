import { createRequire } from 'node:module'

/** The CommonJS build of lmdb is one file, and loads in two thirds of the time of its ES modules. */
export const { open }: typeof import('lmdb') = createRequire(import.meta.url)('lmdb')
