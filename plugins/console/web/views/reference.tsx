import { useState } from 'preact/hooks'
// The page /docs of the server reads the documents with the same module.
import {
  type Body,
  curlOf,
  type Field,
  groupsOf,
  type Operation,
  sectionsOf,
} from '../../../../apiserver/pages/view.js'
import { apiRoot, consoleHref } from '../api/address.ts'
import { get, wordsOf } from '../api/http.ts'
import { token } from '../api/session.ts'
import { address } from '../route.ts'
import { useAsync } from './use-async.ts'

/** The reference of the API: every operation of the kinds and routes of this server, from its own documents. */
export function Reference() {
  const [problem, setProblem] = useState('')
  const failed = (error: unknown) => setProblem(wordsOf(error))
  const groups = useAsync(async () => groupsOf(await get('/openapi/v3')), [], failed)
  const versions = groups?.flatMap(group => group.versions) ?? []
  const { hash } = address.value
  const chosen = versions.find(({ key }) => hash === `#${key}`) ?? versions[0]
  const document = useAsync(
    async () => (chosen === undefined ? undefined : get(`/openapi/v3/${chosen.key}?${chosen.search}`)),
    [chosen?.key],
    failed,
  )
  return (
    <div class="reference">
      <h1>API reference</h1>
      {problem !== '' && (
        <div role="alert" class="alert">
          {problem}
        </div>
      )}
      <nav aria-label="Groups and versions" class="versions">
        {versions.map(({ key }) => (
          <a
            key={key}
            href={consoleHref(`/reference#${key}`)}
            {...(key === chosen?.key && { 'aria-current': 'page' as const })}
          >
            {key.replace(/^apis?\//, '')}
          </a>
        ))}
      </nav>
      {document !== undefined &&
        sectionsOf(document).map(({ name, description, operations }) => (
          <section key={`${chosen?.key} ${name}`}>
            <h2>{name}</h2>
            <p class="quiet">{description}</p>
            {operations.map(operation => (
              <OperationEntry key={operation.id} operation={operation} />
            ))}
          </section>
        ))}
    </div>
  )
}

/** Its content is made when someone opens it. */
function OperationEntry({ operation }: { operation: Operation }) {
  const [isOpen, setOpen] = useState(false)
  const { method, path, summary, isDeprecated } = operation
  return (
    <details class="operation" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <span class="method">{method}</span> <code>{path}</code>{' '}
        <span class="quiet">
          {isDeprecated && 'deprecated: '}
          {summary}
        </span>
      </summary>
      {isOpen && <OperationContent operation={operation} />}
    </details>
  )
}

function OperationContent({ operation }: { operation: Operation }) {
  const { description, parameters, bodies, responses } = operation
  return (
    <div class="operation-content">
      {description !== '' && <p>{description}</p>}
      <pre class="diff">{curlOf(apiRoot.href.replace(/\/$/, ''), operation, token.value !== undefined)}</pre>
      {parameters.length > 0 && (
        <>
          <h3>Parameters</h3>
          <dl class="facts">
            {parameters.flatMap(({ name, place, type, isRequired, description: about }) => [
              <dt key={`name ${place} ${name}`}>
                <code>{name}</code>
              </dt>,
              <dd key={`about ${place} ${name}`}>
                <span class="quiet">
                  {place}, {type}
                  {isRequired && ', required'}
                </span>{' '}
                {about}
              </dd>,
            ])}
          </dl>
        </>
      )}
      {bodies.length > 0 && <h3>Body</h3>}
      {bodies.map(body => (
        <BodyEntry key={body.type} body={body} />
      ))}
      <h3>Responses</h3>
      {responses.map(({ code, description: about, bodies: sent }) => (
        <div key={code}>
          <strong>{code}</strong> {about}
          {sent.map(body => (
            <BodyEntry key={body.type} body={body} />
          ))}
        </div>
      ))}
    </div>
  )
}

function BodyEntry({ body: { type, schema, example } }: { body: Body }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <code>{type}</code> {schema.type}
      </summary>
      {isOpen && (
        <>
          <Fields of={schema} />
          {example !== '' && <pre class="diff">{example}</pre>}
        </>
      )}
    </details>
  )
}

function Fields({ of }: { of: Field }) {
  return (
    <ul class="fields">
      {of.children().map(field => (
        <FieldEntry key={field.name} field={field} />
      ))}
    </ul>
  )
}

function FieldEntry({ field }: { field: Field }) {
  const [isOpen, setOpen] = useState(false)
  const { name, type, isRequired, notes, description } = field
  const line = (
    <>
      <code>{name}</code> {type} {isRequired && <strong>required</strong>}
    </>
  )
  return (
    <li>
      {field.children().length === 0 ? (
        line
      ) : (
        <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
          <summary>{line}</summary>
          {isOpen && <Fields of={field} />}
        </details>
      )}
      {description !== '' && <div>{description}</div>}
      {notes.length > 0 && <div class="quiet">{notes.join(' · ')}</div>}
    </li>
  )
}
