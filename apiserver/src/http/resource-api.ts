import { systemClock } from '@setpoint/controller-runtime'
import {
  ApiError,
  laterRevision,
  nameOfKey,
  type ObjectKey,
  objectKey,
  type Revision,
} from '@setpoint/controller-runtime/api'
import { retryAfterSeconds, unlessAborted, Yielder } from '@setpoint/controller-runtime/internal'
import {
  convertAgain,
  type Entry,
  keyOfEntry,
  type LogFollower,
  type ModelCache,
  type ModelSnapshot,
  type ReadGate,
  shownIn,
  tooLargeVersion,
} from '../cache/index.ts'
import type { ListForm } from '../kubernetes/index.ts'
import type { ModelRegistry, ScalePaths, Scope, ServedModel, ServedVersion } from '../model/index.ts'
import {
  encodeContinue,
  inNamespace,
  type ListQuery,
  pageFields,
  parseListQuery,
  parseObjectReadAt,
  type ReadAt,
  readsDeclared,
  runQuery,
} from '../query/index.ts'
import {
  badRequest,
  deleteAll,
  notFound,
  notReady,
  type Registry,
  timed,
  unreadable,
  type WriteOptions,
  type WriteResult,
} from '../registry/index.ts'
import { FairScheduler, Semaphore, type WorkOwner } from '../scheduling/index.ts'
import type { ApiRequest, ApiResponse } from './api-request.ts'
import { deletionStatus, isDeletionStatus } from './deletion-response.ts'
import { MethodNotAllowedError } from './error-response.ts'
import type { FreshKinds } from './fresh-kinds.ts'
import type { KindAction } from './kind-action.ts'
import type { KindActions } from './kind-actions.ts'
import { listBody, plainList } from './list-response.ts'
import { withIndexes } from './present-indexes.ts'
import { respondToReview, reviewMethods } from './review-api.ts'
import { respondToScale } from './scale-api.ts'
import { warningHeaders, withWarning } from './warning-headers.ts'
import { readDeleteParameters, readObject, readPatch, readWriteOptions } from './write-parameters.ts'

const collectionMethods = ['GET', 'HEAD', 'POST', 'DELETE'] as const
/** Of a namespaced kind across all namespaces. */
const allNamespacesMethods = ['GET', 'HEAD'] as const
/** Of built-in kinds with objects that always exist. */
const lastingMethods = ['GET', 'HEAD', 'POST'] as const
const nameMethods = ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE'] as const
const statusMethods = ['GET', 'HEAD', 'PUT', 'PATCH'] as const
const finalizeMethods = ['PUT'] as const

export const answerDefaults = Object.freeze({
  /** Objects of the longest list that is short. Short lists are not limited. */
  short: 1_000,
  /**
   * Objects of all long lists in flight, until their last byte is sent: about 24 bytes each, and those of built-in
   * kinds another 104 for the view that leaves out their kind.
   */
  objects: 8_000_000,
  /** The same for each caller. */
  objectsPerCaller: 2_000_000,
  /** Long lists that wait for others, in total and for each caller. One more is 429. */
  waiting: 1_000,
  waitingPerCaller: 500,
  /** Objects in the response to the deletion of a collection. */
  deleted: 500,
})

const objectHeaders = Object.freeze({
  'content-type': 'application/json',
  'cache-control': 'no-cache, private',
})

/** The operations on objects, for requests over HTTP and for clients in this process. */
export class ResourceApi {
  readonly #models: ModelRegistry
  readonly #registry: Registry
  readonly #follower: LogFollower
  readonly #gate: ReadGate
  readonly #actions: KindActions | undefined
  /** The kinds that come and go with objects. */
  readonly definitions: FreshKinds | undefined
  readonly #basePath: string
  readonly #scheduler = new FairScheduler()
  readonly #answers = new Semaphore('long lists', {
    holders: Infinity,
    holdersPerCaller: Infinity,
    weight: answerDefaults.objects,
    weightPerCaller: answerDefaults.objectsPerCaller,
    waiting: answerDefaults.waiting,
    waitingPerCaller: answerDefaults.waitingPerCaller,
  })

  constructor(parts: {
    models: ModelRegistry
    registry: Registry
    follower: LogFollower
    gate: ReadGate
    /** The actions of kinds. Default: none. */
    actions?: KindActions
    /** Default: none are served. */
    definitions?: FreshKinds
    basePath: string
  }) {
    this.#models = parts.models
    this.#registry = parts.registry
    this.#follower = parts.follower
    this.#gate = parts.gate
    this.#actions = parts.actions
    this.definitions = parts.definitions
    this.#basePath = parts.basePath
  }

  /** Returns the model that a path names, or undefined if no model or subresource is served there. */
  modelOf(path: ApiRequest['path']): ServedModel | undefined {
    const { group, version, plural, subresource } = path
    const served = this.#models.find(group, version, plural)
    const review =
      subresource === undefined ? served : this.#models.find(group, version, `${plural}/${subresource}`)
    if (review?.review !== undefined) return isReviewAt(review, path) ? review : undefined
    if (served === undefined || served.review !== undefined) return undefined
    const { isNamespaced } = served.indexes
    if (isNamespaced ? path.namespace === undefined && path.name !== undefined : path.namespace !== undefined)
      return undefined
    const isServed =
      subresource === undefined ||
      scopeOf(served, { version, subresource }) ||
      scaleAt(served, path) ||
      this.#actionAt(served, path)
    return isServed ? served : undefined
  }

  /** Returns the model that a client's path names, or undefined if clients are served nothing there. */
  visibleModelOf(path: ApiRequest['path']): ServedModel | undefined {
    const served = this.modelOf(path)
    return served && this.#models.isVisible(served) ? served : undefined
  }

  #actionAt(served: ServedModel, { subresource }: ApiRequest['path']): KindAction | undefined {
    return subresource === undefined ? undefined : this.#actions?.find(served, subresource)
  }

  /** @throws ApiError */
  async handle(given: ServedModel, request: ApiRequest): Promise<ApiResponse> {
    const served = this.presentKind(given, request.path)
    try {
      return await this.#handle(served, request)
    } catch (error) {
      const isRead = request.method === 'GET' || request.method === 'HEAD'
      if (!isRead || this.presentKind(served, request.path) === served) throw error
      return this.handle(served, request)
    }
  }

  /** Returns the kind that has taken the place of a kind whose definition has changed, or the same one. */
  presentKind(served: ServedModel, { version }: Pick<ApiRequest['path'], 'version'>): ServedModel {
    if (served.phase.name !== 'Stopped' || served.next === undefined) return served
    let kind = served
    while (kind.phase.name === 'Stopped' && kind.next !== undefined) kind = kind.next
    return kind.servedVersions().some(({ name }) => name === version) ? kind : served
  }

  async #handle(served: ServedModel, request: ApiRequest): Promise<ApiResponse> {
    if (served.review !== undefined) return respondToReview(served, served.review, request)
    const version = served.versionAt(request.path)
    const response = await this.#respond(served, version, request)
    if (served.rules?.takesEffectAtOnce && request.method !== 'GET' && request.method !== 'HEAD')
      await this.#takeEffect(served, request.path.name ?? response.created)
    return version.warning === undefined ? response : withWarning(response, version.warning)
  }

  #respond(served: ServedModel, version: ServedVersion, request: ApiRequest): Promise<ApiResponse> {
    const { method, path } = request
    const verb = method === 'HEAD' ? 'GET' : method
    const failure = failureOf(served)
    // Objects of a failed or disabled plugin must stay deletable. The registry reads them from the store.
    if (failure !== undefined && path.name !== undefined && path.subresource === undefined && verb !== 'GET')
      return this.#write(served, version, keyIn(path, path.name), 'object', request, {
        onlyLettingGo: failure,
      })
    const cache = this.cacheOf(served)
    if (path.name === undefined) {
      if (verb !== 'GET' && served.indexes.isNamespaced && path.namespace === undefined)
        throw new MethodNotAllowedError(
          method,
          allNamespacesMethods,
          `${served.model.plural} are in namespaces, at .../namespaces/<namespace>/${served.model.plural}`,
        )
      if (verb === 'GET') {
        const query = readList(request, served, version)
        return this.#held(expectedObjects(query, cache), request, () =>
          this.#list(cache, version, query, request),
        )
      }
      if (verb === 'POST') return this.#create(served, version, request)
      if (served.rules?.checkDeletion !== undefined) throw new MethodNotAllowedError(method, lastingMethods)
      if (verb === 'DELETE')
        return this.#held(cache.store.size, request, () => this.#deleteCollection(cache, version, request))
      throw new MethodNotAllowedError(method, collectionMethods)
    }
    const key = keyIn(path, path.name)
    const action = this.#actionAt(served, path)
    if (action !== undefined)
      return action.respond(served, key, request, async () => {
        await this.#catchUp(cache, request, request.whenGone?.())
        return JSON.parse((await this.#shown(cache, key, served.hub, request)).toString())
      })
    const paths = scaleAt(served, path)
    if (paths !== undefined)
      return respondToScale(this.#registry, { served, version, key, paths }, request, async () => {
        await this.#catchUp(cache, request, request.whenGone?.())
        return this.#shown(cache, key, version, request)
      })
    const scope = path.subresource === undefined ? 'object' : (scopeOf(served, path) ?? 'object')
    if (scope === 'finalize' && verb !== 'PUT') throw new MethodNotAllowedError(method, finalizeMethods)
    if (verb === 'GET') return this.#get(cache, version, key, request)
    return this.#write(served, version, key, scope, request, {})
  }

  async #write(
    served: ServedModel,
    version: ServedVersion,
    key: ObjectKey,
    scope: Scope,
    request: ApiRequest,
    bounds: Pick<WriteOptions, 'onlyLettingGo'>,
  ): Promise<ApiResponse> {
    const { method } = request
    if (method === 'PUT') {
      const options = { ...readWriteOptions(request), ...bounds, version }
      const { document, ...body } = await readObject(request, options.fieldValidation, version)
      const result = await this.#registry.replace(served, key, document, scope, { ...options, ...body })
      return written(request, 200, result)
    }
    if (method === 'PATCH') {
      const options = { ...readWriteOptions(request), ...bounds, version }
      const { dropsNulls, duplicates, ...patch } = await readPatch(request, options.fieldValidation, version)
      const result =
        patch.type === 'apply'
          ? await this.#registry.apply(served, key, patch, scope, { ...options, duplicates })
          : await this.#registry.patch(served, key, patch, scope, { ...options, dropsNulls, duplicates })
      return written(request, result.isCreated ? 201 : 200, result)
    }
    if (method === 'DELETE' && scope === 'object') {
      const { deletion, ignoresReadErrors, options } = await readDeleteParameters(request)
      if (ignoresReadErrors) {
        await this.#registry.deleteUnreadable(served, key, deletion, options)
        return deletionStatus(request.path, undefined)
      }
      const result = await this.#registry.delete(served, key, deletion, { ...options, version })
      return isDeletionStatus(served, result)
        ? deletionStatus(request.path, result.bytes)
        : written(request, 200, result)
    }
    throw new MethodNotAllowedError(method, scope === 'status' ? statusMethods : nameMethods)
  }

  /** @throws ApiError 503 while the kind is not ready; MethodNotAllowedError for a kind that is not stored */
  cacheOf(served: ServedModel): ModelCache {
    if (served.review !== undefined) throw new MethodNotAllowedError('GET', reviewMethods)
    if (served.phase.name === 'Starting')
      throw notReady(served, this.#follower.trouble ?? 'its indexes are being built')
    const failure = failureOf(served)
    if (failure !== undefined) throw failure
    const cache = this.#follower.cacheOf(served)
    if (cache === undefined) throw notReady(served, 'its objects are being read')
    return cache
  }

  /**
   * Waits until a cache is as new as the store. @throws ApiError 503 on a time-out, or if the cache is dropped
   * meanwhile; 403 if the caller has lost the permission by then
   */
  async #catchUp({ served }: ModelCache, request: ApiRequest, signal?: AbortSignal): Promise<void> {
    await timed(request.times, 'storeMs', this.#gate.pass(signal))
    request.authorize?.()
    this.cacheOf(served)
  }

  /** Waits until the caches, and with them the roles, are as new as the store. @throws ApiError 503 */
  catchUp(): Promise<unknown> {
    return this.#gate.pass()
  }

  /**
   * Waits until the cache has the writes that have been acknowledged.
   * @param name of the object that was written; undefined for a collection
   * @throws ApiError 504
   */
  async #takeEffect(served: ServedModel, name: string | undefined): Promise<void> {
    const { title } = served
    try {
      await (served === this.definitions?.kind ? this.definitions.settled(name) : this.#gate.pass())
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      const message = `the change of ${title} is stored, but not in force on this server yet: ${error.message}`
      throw new ApiError('Timeout', message, { retryAfterSeconds }, { cause: error })
    }
  }

  async #create(served: ServedModel, version: ServedVersion, request: ApiRequest): Promise<ApiResponse> {
    const { path } = request
    const options = {
      ...readWriteOptions(request),
      version,
      namespace: path.namespace,
    }
    const { document, ...body } = await readObject(request, options.fieldValidation, version)
    const result = await this.#registry.create(served, document, { ...options, ...body })
    const root = version.group === '' ? 'api' : 'apis'
    const collection = path.namespace === undefined ? '' : `namespaces/${path.namespace}/`
    const name = nameOfKey(result.key)
    const location = `${this.#basePath}/${root}/${version.apiVersion}/${collection}${served.model.plural}/${name}`
    return { ...written(request, 201, result, { location }), created: name }
  }

  async #get(
    cache: ModelCache,
    version: ServedVersion,
    key: ObjectKey,
    request: ApiRequest,
  ): Promise<ApiResponse> {
    const at = parseObjectReadAt(request.query)
    if (at.kind !== 'any') await this.#catchUp(cache, request, request.signal)
    this.#checkReached(at)
    const bytes = await this.#shown(cache, key, version, request)
    return { status: 200, headers: objectHeaders, body: inView(bytes, request) }
  }

  /** Returns the wire JSON of an object in a version. @throws ApiError 404, 500 */
  async #shown(
    cache: ModelCache,
    key: ObjectKey,
    version: ServedVersion,
    request: ApiRequest,
  ): Promise<Buffer> {
    const entry = entryOf(cache, key)
    const bytesOf = await shownIn(cache, [entry], version, () => request.whenGone?.())
    return bytesOf(entry)
  }

  /** Waits for room for a response of so many objects. The response releases it once it is sent. */
  async #held(
    objects: number,
    request: ApiRequest,
    respond: () => Promise<ApiResponse>,
  ): Promise<ApiResponse> {
    if (objects <= answerDefaults.short) return respond()
    const release = await timed(
      request.times,
      'queueMs',
      this.#answers.acquire(objects, new RequestOwner(request)),
    )
    try {
      return { ...(await respond()), release }
    } catch (error) {
      release()
      throw error
    }
  }

  async #list(
    cache: ModelCache,
    as: ServedVersion,
    query: ListQuery,
    request: ApiRequest,
  ): Promise<ApiResponse> {
    const owner = new RequestOwner(request)
    const { snapshot, version } = await this.#stateFor(cache, query, request, owner)
    const result = await runQuery(snapshot, query, this.#scheduler, owner)
    if (result.items.length > answerDefaults.short) request.signal?.throwIfAborted()
    const bytesOf = await shownIn(cache, result.items, as, () => request.whenGone?.())
    const form = request.view?.list ?? plainList(as)
    const isPart = result.kind === 'page' ? result.items.length < result.total : result.next !== undefined
    if (isPart) cache.snapshots.hold(snapshot)
    if (result.kind === 'page') {
      const fields = query.paging.kind === 'page' ? pageFields(query.paging, result.total) : {}
      return {
        status: 200,
        headers: headersOf(form),
        body: await listBody(form, version, {}, fields, result.items, bytesOf),
      }
    }
    const { next, remaining } = result
    const chunk = {
      continue: next && encodeContinue({ version, after: next }),
      remainingItemCount: remaining,
    }
    return {
      status: 200,
      headers: headersOf(form),
      body: await listBody(form, version, chunk, {}, result.items, bytesOf),
    }
  }

  /** Returns the state that a list reads, and its version. @throws ApiError 410, 429, 503, 504; ConversionError */
  async #stateFor(
    cache: ModelCache,
    { selector, sort, at }: ListQuery,
    request: ApiRequest,
    owner: WorkOwner,
  ): Promise<{ snapshot: ModelSnapshot; version: Revision }> {
    if (at.kind !== 'any') await this.#catchUp(cache, request)
    const selectsDeclared = readsDeclared({ selector, sort }, cache.served.indexes)
    if (selectsDeclared && cache.unknownVersion !== undefined) throw cache.unknownVersion
    if (selectsDeclared && cache.unconverted.size > 0) {
      const failure = await unlessAborted(convertAgain(cache), request.whenGone?.())
      if (failure !== undefined) throw failure
    }
    const { known } = this.#follower
    if (at.kind === 'exact') {
      if (at.revision > known)
        throw new ApiError(
          'Expired',
          `version ${at.revision} does not exist yet: the current version is ${known}`,
        )
      const { snapshots, store } = cache
      const snapshot =
        snapshots.at(at.revision) ??
        (await this.#scheduler.run(snapshots.rewind(at.revision), store.size, owner))
      return { snapshot, version: at.revision }
    }
    this.#checkReached(at)
    return { snapshot: cache.snapshots.present(), version: laterRevision(known, cache.revision) }
  }

  /** @throws ApiError 504 if the store has not reached the least version of a read */
  #checkReached(at: ReadAt): void {
    const { known } = this.#follower
    if (at.kind === 'notOlderThan' && at.revision > known) throw tooLargeVersion(at.revision, known)
  }

  /**
   * Deletes the objects that a list would return, until the client disconnects. The response has the first ones that
   * were deleted, unless their kind is sensitive.
   */
  async #deleteCollection(cache: ModelCache, as: ServedVersion, request: ApiRequest): Promise<ApiResponse> {
    const { deletion, ignoresReadErrors, options } = await readDeleteParameters(request)
    if (ignoresReadErrors)
      throw badRequest('objects that cannot be read are deleted one by one, by their names')
    const keys = await this.#keysOf(cache, as, request)
    const { sensitive } = cache.served.model
    const most = sensitive ? 0 : answerDefaults.deleted
    const shown: { at: number; bytes: Buffer }[] = []
    let count = 0
    await deleteAll({
      registry: this.#registry,
      served: cache.served,
      keys,
      deletion,
      options: { ...options, version: as },
      turn: () => request.turn?.(),
      deleted({ bytes }, at) {
        count++
        if (shown.length < most) shown.push({ at, bytes })
      },
    })
    const version = await this.#gate.pass(request.signal)
    if (sensitive) return deletionStatus(request.path, undefined)
    const form = request.view?.list ?? plainList(as)
    const remaining = count - shown.length
    const chunk = remaining === 0 ? {} : { remainingItemCount: remaining }
    shown.sort((one, other) => one.at - other.at)
    return {
      status: 200,
      headers: headersOf(form),
      body: await listBody(form, version, chunk, {}, shown, ({ bytes }) => bytes),
    }
  }

  /** Returns the keys of the objects that a list would return: not the objects, which would stay in memory. */
  async #keysOf(cache: ModelCache, as: ServedVersion, request: ApiRequest): Promise<readonly ObjectKey[]> {
    const query = readList(request, cache.served, as)
    await this.#catchUp(cache, request, request.signal)
    const owner = new RequestOwner(request)
    const { items } = await runQuery(cache.store.snapshot(), query, this.#scheduler, owner)
    const keys: ObjectKey[] = []
    const yielder = new Yielder(systemClock)
    for (const entry of items) {
      keys.push(keyOfEntry(entry))
      const pause = yielder.pause()
      if (pause !== undefined) await pause
    }
    return keys
  }
}

/** @throws ApiError 404; 500 for an object whose stored value cannot be read */
function entryOf({ store, unreadable: unread, served }: ModelCache, key: ObjectKey): Entry {
  const entry = store.get(key)
  if (entry !== undefined) return entry
  const value = unread.get(key)
  throw value === undefined ? notFound(served, key) : unreadable(served, key, value.problem)
}

/** Returns true if reviews of a kind are posted to a path. */
function isReviewAt({ indexes, review }: ServedModel, { namespace, name }: ApiRequest['path']): boolean {
  const isAt = (review?.parent === undefined) === (name === undefined)
  return isAt && indexes.isNamespaced === (namespace !== undefined)
}

function headersOf({ contentType }: ListForm): ApiResponse['headers'] {
  return contentType === undefined ? objectHeaders : { ...objectHeaders, 'content-type': contentType }
}

/** Shows an object in the view of a request. */
function inView(object: Buffer, { view }: ApiRequest): Buffer {
  return view === undefined ? object : view.object(object)
}

/** Returns the scope of writes to a subresource, or undefined if the kind does not have it. */
function scopeOf(
  { model, rules, defined }: ServedModel,
  { version, subresource }: Pick<ApiRequest['path'], 'version' | 'subresource'>,
): Scope | undefined {
  const { hasStatus } = defined?.versions.get(version) ?? { hasStatus: model.subresources.status }
  if (subresource === 'status') return hasStatus ? 'status' : undefined
  return rules?.subresources?.find(name => name === subresource)
}

/** Returns where the objects keep what their `scale` shows, if a path names it and the version has it. */
function scaleAt(
  { defined }: ServedModel,
  { version, subresource }: Pick<ApiRequest['path'], 'version' | 'subresource'>,
): ScalePaths | undefined {
  return subresource === 'scale' ? defined?.versions.get(version)?.scale : undefined
}

function keyIn({ namespace }: ApiRequest['path'], name: string): ObjectKey {
  return namespace === undefined ? name : objectKey({ namespace, name })
}

/** @throws ApiError 400 */
function readList({ query, path }: ApiRequest, served: ServedModel, version: ServedVersion): ListQuery {
  const parsed = withIndexes(served, version, indexes => parseListQuery(query, indexes))
  return path.namespace === undefined ? parsed : inNamespace(parsed, path.namespace)
}

/** The caller of a request's work. The signal is made when it is read. */
class RequestOwner implements WorkOwner {
  readonly #request: ApiRequest

  constructor(request: ApiRequest) {
    this.#request = request
  }

  get caller(): string {
    return this.#request.caller.payer
  }

  get signal(): AbortSignal | undefined {
    return this.#request.signal
  }
}

/** Returns an upper bound for the number of objects in a list. */
function expectedObjects({ paging }: ListQuery, { store }: ModelCache): number {
  return Math.min((paging.kind === 'page' ? paging.size : paging.limit) ?? Infinity, store.size)
}

/** Returns the error for a kind whose plugin has failed or was stopped. */
function failureOf(served: ServedModel): ApiError | undefined {
  return 'message' in served.phase ? notReady(served, served.phase.message) : undefined
}

function written(
  request: ApiRequest,
  status: number,
  { warnings, bytes }: WriteResult,
  headers: Record<string, string> = {},
): ApiResponse {
  const warning = warnings.length > 0 && { warning: warningHeaders(warnings) }
  return { status, headers: { ...objectHeaders, ...headers, ...warning }, body: inView(bytes, request) }
}
