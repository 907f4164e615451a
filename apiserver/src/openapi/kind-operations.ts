import type { JsonObject } from '../model/index.ts'
import {
  type ExampleNames,
  exampleNames,
  isNamespaced,
  type KindComponents,
  type KindVersion,
  kindExtension,
  listNameOf,
  nameOf,
} from './kind-schemas.ts'
import { metaName, type OperationIds, partsOf, refTo, upperCamel } from './names.ts'
import {
  fieldManager,
  fieldSelector,
  force,
  parameterRefs,
  parametersInFull,
  type SharedParameter,
  sort,
} from './parameters.ts'
import { errorRefs } from './responses.ts'

/** The media type of server-side apply. */
const applyType = 'application/apply-patch+yaml'

/** The media types of requests. */
export interface RequestFormats {
  /** Of objects, and of the options of a deletion. */
  readonly bodies: readonly string[]
  readonly patches: readonly string[]
}

export interface OperationOptions {
  readonly formats: RequestFormats
  readonly ids: OperationIds
}

/** Returns true if the server has server-side apply. */
export function hasApply({ patches }: RequestFormats): boolean {
  return patches.includes(applyType)
}

const watchParameters = [
  'version',
  'resourceVersion',
  'resourceVersionMatch',
  'watch',
  'sendInitialEvents',
  'allowWatchBookmarks',
  'timeoutSeconds',
] as const satisfies readonly SharedParameter[]

const watchText =
  'With watch=true, the response is a stream of WatchEvents: one in each line, or in each data field of Server-Sent Events. A WebSocket handshake on this path opens a watch, too.'

/** Makes the operations of one kind. */
export class KindOperations {
  readonly #of: KindVersion
  readonly #options: OperationOptions
  readonly #examples: ExampleNames | undefined
  readonly #applies: boolean

  constructor(of: KindVersion, components: KindComponents, options: OperationOptions) {
    this.#of = of
    this.#options = options
    this.#examples = exampleNames(of, components.examples)
    this.#applies = hasApply(options.formats)
  }

  /** @param suffix of the operation's id */
  list(suffix: string): JsonObject {
    const { names } = this.#of.served.indexesOf(this.#of.version)
    return this.#operation('list', 'list', `List or watch objects of the kind ${this.#kind}`, {
      suffix,
      description: watchText,
      parameters: [
        ...parameterRefs('labelSelector'),
        fieldSelector(names),
        sort(names),
        ...parameterRefs('page', 'size', 'limit', 'continue', ...watchParameters),
      ],
      responses: {
        '200': this.#stream(list('The list.', listNameOf(this.#of))),
        ...errorRefs(400, 410, 504),
      },
    })
  }

  create(): JsonObject {
    return this.#operation('create', 'post', `Create a ${this.#kind}`, {
      parameters: [...parameterRefs('dryRun', 'fieldValidation'), ...this.#managerParameter()],
      requestBody: this.#objectBody(this.#examples?.sent),
      responses: {
        '201': {
          ...this.#object('The created object.'),
          headers: { Location: { description: 'The path of the object.', schema: { type: 'string' } } },
        },
        ...errorRefs(400, 409, 413, 415, 422, 504),
      },
    })
  }

  review(): JsonObject {
    return this.#operation('create', 'post', `Create a ${this.#kind}, which is answered and not stored`, {
      parameters: parameterRefs('dryRun', 'fieldValidation'),
      requestBody: this.#objectBody(this.#examples?.sent),
      responses: {
        '201': {
          description: 'The response.',
          content: { 'application/json': mediaOf(nameOf(this.#of), this.#examples?.stored) },
        },
        ...errorRefs(400, 413, 415, 422),
      },
    })
  }

  deleteCollection(): JsonObject {
    return this.#operation('delete', 'deletecollection', `Delete the objects that the selectors match`, {
      infix: 'Collection',
      parameters: [
        ...parameterRefs('labelSelector'),
        fieldSelector(this.#of.served.indexesOf(this.#of.version).names),
        ...parameterRefs('propagationPolicy', 'orphanDependents', 'dryRun'),
      ],
      requestBody: this.#deleteBody(),
      responses: {
        '200': this.#isSensitive
          ? deleted
          : list('The first 500 of the deleted objects.', listNameOf(this.#of)),
        ...errorRefs(400, 409, 413, 415, 422, 504),
      },
    })
  }

  read(): JsonObject {
    return this.#operation('read', 'get', `Read or watch a ${this.#kind}`, {
      description: watchText,
      parameters: parameterRefs(...watchParameters),
      responses: {
        '200': this.#stream(this.#object('The object.')),
        ...errorRefs(400, 410, 504),
      },
    })
  }

  replace(): JsonObject {
    return this.#replace(`Replace a ${this.#kind}`, '')
  }

  patch(): JsonObject {
    return this.#patch(`Change parts of a ${this.#kind}`, '')
  }

  delete(): JsonObject {
    return this.#operation('delete', 'delete', `Delete a ${this.#kind}`, {
      description:
        'An object with finalizers stays, with a deletionTimestamp, until the last one is removed.',
      parameters: parameterRefs(
        'propagationPolicy',
        'orphanDependents',
        'uid',
        'deletedVersion',
        'deletedResourceVersion',
        'ignoreStoreReadErrorWithClusterBreakingPotential',
        'dryRun',
      ),
      requestBody: this.#deleteBody(),
      responses: {
        '200': this.#deleted(),
        ...errorRefs(400, 409, 413, 415, 422, 504),
      },
    })
  }

  readStatus(): JsonObject {
    return this.#operation('read', 'get', `Read a ${this.#kind} with its status`, {
      suffix: 'Status',
      parameters: parameterRefs('resourceVersion'),
      responses: { '200': this.#object('The object.'), ...errorRefs(504) },
    })
  }

  replaceStatus(): JsonObject {
    return this.#replace(`Replace the status of a ${this.#kind}`, 'Status')
  }

  replaceSubresource(subresource: string): JsonObject {
    return this.#replace(`Replace ${subresource} of a ${this.#kind}`, upperCamel(subresource))
  }

  patchStatus(): JsonObject {
    return this.#patch(`Change parts of the status of a ${this.#kind}`, 'Status')
  }

  readScale(): JsonObject {
    return this.#operation('read', 'get', `Read the scale of a ${this.#kind}`, {
      suffix: 'Scale',
      responses: { '200': scaleResponse, ...errorRefs(504) },
    })
  }

  replaceScale(): JsonObject {
    return this.#operation('replace', 'put', `Replace the scale of a ${this.#kind}`, {
      suffix: 'Scale',
      parameters: [...parameterRefs('dryRun', 'fieldValidation'), ...this.#managerParameter()],
      requestBody: { required: true, content: this.#bodyContent({ schema: scale }) },
      responses: { '200': scaleResponse, ...errorRefs(400, 409, 413, 415, 422, 504) },
    })
  }

  patchScale(): JsonObject {
    const patches = this.#options.formats.patches.filter(type => type !== applyType)
    const content = patches.map(type => [type, patchBodyOf(type, undefined)])
    return this.#operation('patch', 'patch', `Change parts of the scale of a ${this.#kind}`, {
      suffix: 'Scale',
      parameters: [...parametersInFull('dryRun', 'fieldValidation'), ...this.#managerParameter()],
      requestBody: { required: true, content: Object.fromEntries(content) },
      responses: { '200': scaleResponse, ...errorRefs(400, 409, 413, 415, 422, 504) },
    })
  }

  #deleted(): JsonObject {
    if (this.#isSensitive) return deleted
    const { hub, rules, defined } = this.#of.served
    if ((!hub.isBuiltIn && defined === undefined) || rules?.returnsDeleted)
      return this.#object('The object as it was deleted, or as it waits for its finalizers.')
    // As in Kubernetes' own documents, although an object that waits for its finalizers is no Status.
    return {
      ...deleted,
      description:
        'A Status with the name and uid of the removed object. One that waits for its finalizers is the object.',
    }
  }

  get #isSensitive(): boolean {
    return this.#of.served.model.sensitive
  }

  get #kind(): string {
    return this.#of.version.kind
  }

  #replace(summary: string, suffix: string): JsonObject {
    return this.#operation('replace', 'put', summary, {
      suffix,
      parameters: [...parameterRefs('dryRun', 'fieldValidation'), ...this.#managerParameter()],
      requestBody: this.#objectBody(suffix === 'Status' ? this.#examples?.status : this.#examples?.sent),
      responses: { '200': this.#object('The object.'), ...errorRefs(400, 409, 413, 415, 422, 504) },
    })
  }

  #patch(summary: string, suffix: string): JsonObject {
    const content = this.#options.formats.patches.map(type => [type, patchBodyOf(type, this.#examples?.sent)])
    return this.#operation('patch', 'patch', summary, {
      suffix,
      parameters: [
        ...parametersInFull('dryRun', 'fieldValidation'),
        ...this.#managerParameter(),
        ...(this.#applies ? [force] : []),
      ],
      requestBody: { required: true, content: Object.fromEntries(content) },
      responses: {
        '200': this.#object('The object.'),
        ...(this.#applies && suffix === '' && { '201': this.#object('The object that an apply created.') }),
        ...errorRefs(400, 409, 413, 415, 422, 504),
      },
    })
  }

  #operation(
    verb: string,
    action: string,
    summary: string,
    { infix = '', suffix = '', ...rest }: JsonObject & { infix?: string; suffix?: string },
  ): JsonObject {
    const { served, version } = this.#of
    const { group, version: name } = partsOf(version.apiVersion)
    const scope = isNamespaced(this.#of) && suffix !== 'ForAllNamespaces' ? 'Namespaced' : ''
    const subject = `${infix}${scope}${served.model.kind}${suffix}`
    const id = `${verb}${upperCamel(group || 'core', name)}${subject}`
    return {
      tags: [served.model.kind],
      operationId: this.#options.ids.take(id),
      summary,
      ...rest,
      ...(version.warning !== undefined && { deprecated: true }),
      'x-kubernetes-action': action,
      'x-kubernetes-group-version-kind': kindExtension(this.#of),
    }
  }

  #managerParameter(): JsonObject[] {
    return this.#applies ? [fieldManager] : []
  }

  #object(description: string): ObjectResponse {
    return object(description, nameOf(this.#of), this.#examples?.stored)
  }

  #objectBody(example: string | undefined): JsonObject {
    return { required: true, content: this.#bodyContent(mediaOf(nameOf(this.#of), example)) }
  }

  #deleteBody(): JsonObject {
    return { content: this.#bodyContent(mediaOf(metaName('DeleteOptions'))) }
  }

  #bodyContent(media: JsonObject): JsonObject {
    return Object.fromEntries(this.#options.formats.bodies.map(type => [type, media]))
  }

  #stream({ content, ...response }: ObjectResponse): JsonObject {
    const events = { schema: refTo('schemas', metaName('WatchEvent')) }
    return { ...response, content: { ...content, 'text/event-stream': events } }
  }
}

const replicas = { type: 'integer', format: 'int32' }

/** `autoscaling/v1` Scale. */
const scale = {
  type: 'object',
  description: 'How many replicas an object has, and should have.',
  properties: {
    apiVersion: { type: 'string' },
    kind: { type: 'string' },
    metadata: { type: 'object' },
    spec: { type: 'object', properties: { replicas } },
    status: { type: 'object', properties: { replicas, selector: { type: 'string' } } },
  },
}

const scaleResponse = { description: 'The scale.', content: { 'application/json': { schema: scale } } }

/** Of a sensitive kind. */
const deleted = {
  description: 'A Status with the name and uid. Nothing of a sensitive object is shown.',
  content: { 'application/json': mediaOf(metaName('Status')) },
}

interface ObjectResponse extends JsonObject {
  readonly content: JsonObject
}

function object(description: string, schema: string, example?: string): ObjectResponse {
  return { description, content: { 'application/json': mediaOf(schema, example), ...objectViews } }
}

function list(description: string, schema: string): ObjectResponse {
  return { description, content: { 'application/json': mediaOf(schema), ...listViews } }
}

function mediaOf(schema: string, example?: string): JsonObject {
  return {
    schema: refTo('schemas', schema),
    examples: example && { example: refTo('examples', example) },
  }
}

/** The other forms that the client can ask for, with the type of an object or list in them. */
const viewsOf = (metadata: string) =>
  Object.fromEntries(
    ['Table', metadata].map(form => [
      `application/json;as=${form};v=v1;g=meta.k8s.io`,
      mediaOf(metaName(form)),
    ]),
  )

const objectViews = viewsOf('PartialObjectMetadata')
const listViews = viewsOf('PartialObjectMetadataList')

function patchBodyOf(type: string, sent: string | undefined): JsonObject {
  if (type === 'application/json-patch+json')
    return {
      schema: refTo('schemas', metaName('JSONPatch')),
      example: [
        { op: 'test', path: '/metadata/name', value: 'example' },
        { op: 'add', path: '/metadata/labels', value: { 'example.com/team': 'a' } },
      ],
    }
  const schema = refTo('schemas', metaName('Patch'))
  if (type !== applyType)
    return { schema, example: { metadata: { labels: { 'example.com/team': 'a', 'example.com/old': null } } } }
  return { schema, examples: sent && { example: refTo('examples', sent) } }
}
