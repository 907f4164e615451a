import { isRecord } from '../api/is-record.ts'
import { type KeysOf, refuseUnknownKeys } from '../api/known-keys.ts'
import type {
  ApplyOptions,
  CreateOrUpdateOptions,
  DeleteOptions,
  ItemsOptions,
  ListOptions,
  PatchOptions,
  ReadOptions,
  RequestOptions,
  WatchOptions,
  WriteOptions,
} from './client.ts'

const selectors = { labelSelector: true, fieldSelector: true } as const
const read: KeysOf<ReadOptions> = { signal: true, resourceVersion: true }
const action: KeysOf<RequestOptions> = { signal: true }
const write: KeysOf<WriteOptions> = { signal: true, dryRun: true, fieldValidation: true }
const list: KeysOf<ListOptions> = {
  ...read,
  ...selectors,
  sort: true,
  page: true,
  size: true,
  limit: true,
  continue: true,
  resourceVersionMatch: true,
}
const items: KeysOf<ItemsOptions> = { signal: true, ...selectors, sort: true, pageSize: true }
const patch: KeysOf<PatchOptions> = { ...write, version: true }
const apply: KeysOf<ApplyOptions> = { ...write, fieldManager: true, force: true }
const createOrUpdate: KeysOf<CreateOrUpdateOptions> = {
  ...write,
  attempts: true,
  clock: true,
  random: true,
}
const remove: KeysOf<DeleteOptions> = {
  signal: true,
  preconditions: true,
  propagationPolicy: true,
  dryRun: true,
}
const preconditions: KeysOf<DeleteOptions['preconditions'] & object> = { uid: true, version: true }
const watch: KeysOf<WatchOptions> = {
  signal: true,
  ...selectors,
  name: true,
  version: true,
  timeoutSeconds: true,
}

const keys = {
  get: read,
  list,
  items,
  create: write,
  update: write,
  patch,
  apply,
  createOrUpdate,
  delete: remove,
  action,
  watch,
}

/** @throws TypeError for an unknown option: a misspelled selector would select every object. */
export function checkOptions(method: keyof typeof keys, options: object): void {
  if (isRecord(options) && options.namespace !== undefined)
    throw new TypeError(`${method} has no option namespace: use client.inNamespace(namespace).${method}(...)`)
  refuseUnknownKeys(options, keys[method], `the options of ${method}`)
}

/** @throws TypeError for an unknown precondition: without it, a deletion would be unconditional. */
export function checkPreconditions(given: DeleteOptions['preconditions']): void {
  if (given !== undefined) refuseUnknownKeys(given, preconditions, 'the preconditions of delete')
}
