import { useState } from 'preact/hooks'
import { consoleHref } from '../api/address.ts'
import { type Kind, pathOfKind } from '../api/discovery.ts'
import { type ApiObject, fieldsOf, isFields, listOf, textOf } from '../api/json.ts'
import type { World } from '../app-state.ts'
import { type Dependents, dependentsOf } from '../model/dependents.ts'
import { Age, Value } from './cell.tsx'

/** What the object is and how it is doing, live. */
export function Overview({
  object,
  kind,
  world,
  isGone,
}: {
  object: ApiObject
  kind: Kind
  world: World
  isGone: boolean
}) {
  const { metadata, apiVersion: _, kind: __, status, spec, ...content } = object
  const conditions = listOf(fieldsOf(status).conditions).map(fieldsOf)
  const { conditions: ___, ...rest } = fieldsOf(status)
  return (
    <div class="overview">
      {conditions.length > 0 && (
        <section>
          <h2>Conditions</h2>
          <ul class="conditions">
            {conditions.map(condition => (
              <li key={textOf(condition.type)}>
                <strong>{textOf(condition.type)}</strong> <Value value={condition.status} type="string" />{' '}
                {textOf(condition.reason) !== '' && <code>{textOf(condition.reason)}</code>}
                {typeof condition.lastTransitionTime === 'string' && (
                  <span class="quiet">
                    {' '}
                    since <Age time={condition.lastTransitionTime} />
                  </span>
                )}
                {textOf(condition.message) !== '' && <div class="message">{textOf(condition.message)}</div>}
              </li>
            ))}
          </ul>
        </section>
      )}
      {Object.keys(rest).length > 0 && <Part title="Status" value={rest} />}
      {spec !== undefined && <Part title="Spec" value={spec} />}
      {Object.entries(content)
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => (
          <Part key={name} title={name} value={value} />
        ))}
      <section>
        <h2>Metadata</h2>
        <dl class="facts">
          <dt>Created</dt>
          <dd>
            <Age time={metadata.creationTimestamp} /> ago
          </dd>
          <dt>Version</dt>
          <dd>{metadata.version}</dd>
          {typeof metadata.generation === 'number' && (
            <>
              <dt>Generation</dt>
              <dd>{metadata.generation}</dd>
            </>
          )}
          <dt>UID</dt>
          <dd>
            <code>{metadata.uid}</code>
          </dd>
          <Pairs title="Labels" value={metadata.labels} />
          <Pairs title="Annotations" value={metadata.annotations} />
          {metadata.finalizers.length > 0 && (
            <>
              <dt>Finalizers</dt>
              <dd>
                {metadata.finalizers.map(each => (
                  <code key={each} class="chip">
                    {each}
                  </code>
                ))}
              </dd>
            </>
          )}
        </dl>
      </section>
      <Relations object={object} kind={kind} world={world} isGone={isGone} />
    </div>
  )
}

function Part({ title, value }: { title: string; value: unknown }) {
  return (
    <section>
      <h2>{title}</h2>
      <Tree value={value} depth={0} />
    </section>
  )
}

/** Entries that are shown at once; a person asks for more. */
const shownEntries = 100
/** Characters of a text that are shown at once. */
const shownCharacters = 2_000

/** A value of any shape as text, never as markup. */
function Tree({ value, depth }: { value: unknown; depth: number }) {
  const [count, setCount] = useState(shownEntries)
  const entries: (readonly [string, unknown])[] = Array.isArray(value)
    ? value.map((each, at) => [String(at), each] as const)
    : isFields(value)
      ? Object.entries(value)
      : []
  if (typeof value !== 'object' || value === null) return <Text value={value} />
  if (entries.length === 0) return <span class="quiet">{Array.isArray(value) ? 'empty list' : 'empty'}</span>
  if (depth > 12) return <code>{JSON.stringify(value).slice(0, shownCharacters)}</code>
  if (Array.isArray(value) && value.every(each => typeof each !== 'object'))
    return (
      <span>
        {value.slice(0, count).map((each, at) => (
          <code key={at} class="chip">
            {String(each).slice(0, 200)}
          </code>
        ))}
        <More of={entries.length} shown={count} more={() => setCount(count * 10)} />
      </span>
    )
  const names = Array.isArray(value) ? commonNames(value) : undefined
  if (names !== undefined)
    return (
      <div class="records">
        <table>
          <thead>
            <tr>
              {names.map(name => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {entries.slice(0, count).map(([at, each]) => (
              <tr key={at}>
                {names.map(name => (
                  <td key={name}>
                    <Text value={fieldsOf(each)[name] ?? ''} isBare />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
        <More of={entries.length} shown={count} more={() => setCount(count * 10)} />
      </div>
    )
  return (
    <>
      <dl class="facts">
        {entries.slice(0, count).flatMap(([name, each]) => [
          <dt key={`name ${name}`}>
            <bdi>{name}</bdi>
          </dt>,
          <dd key={`value ${name}`}>
            <Tree value={each} depth={depth + 1} />
          </dd>,
        ])}
      </dl>
      <More of={entries.length} shown={count} more={() => setCount(count * 10)} />
    </>
  )
}

/** Returns the names of the fields of records with nothing but scalars, which fit into a table. */
function commonNames(list: readonly unknown[]): string[] | undefined {
  if (!list.every(isFields)) return undefined
  const names = [...new Set(list.slice(0, shownEntries).flatMap(each => Object.keys(each)))]
  const isFlat = list.every(each => Object.values(each).every(part => typeof part !== 'object'))
  return isFlat && names.length > 0 && names.length <= 8 ? names : undefined
}

/** @param isBare for a cell: an empty text is shown as nothing, and a time as its age */
function Text({ value, isBare = false }: { value: unknown; isBare?: boolean }) {
  if (isBare && value === '') return null
  const [isWhole, setWhole] = useState(false)
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(value))
    return (
      <span>
        <Age time={value} /> ago {!isBare && <span class="quiet">{value}</span>}
      </span>
    )
  if (value === null) return <span class="quiet">null</span>
  const text = value === '' ? '""' : String(value)
  if (text.length <= shownCharacters || isWhole) {
    if (text.includes('\n')) return <pre>{text}</pre>
    if (text.length > 200) return <bdi class="long">{text}</bdi>
    return <Value value={value === '' ? text : value} type="string" />
  }
  return (
    <span>
      <bdi class="long">{text.slice(0, shownCharacters)}…</bdi>{' '}
      <button type="button" class="plain" onClick={() => setWhole(true)}>
        Show all {text.length.toLocaleString('en')} characters
      </button>
    </span>
  )
}

function More({ of, shown, more }: { of: number; shown: number; more: () => void }) {
  if (of <= shown) return null
  return (
    <button type="button" class="plain" onClick={more}>
      Show more of {of.toLocaleString('en')}
    </button>
  )
}

function Pairs({ title, value }: { title: string; value: unknown }) {
  const [count, setCount] = useState(shownEntries)
  const pairs = Object.entries(fieldsOf(value))
  if (pairs.length === 0) return null
  return (
    <>
      <dt>{title}</dt>
      <dd>
        {pairs.slice(0, count).map(([name, each]) => (
          <code key={name} class="chip">
            {name}={String(each).slice(0, 200)}
          </code>
        ))}
        <More of={pairs.length} shown={count} more={() => setCount(count * 10)} />
      </dd>
    </>
  )
}

/** Owners above and dependents below, as a tree. */
function Relations({
  object,
  kind,
  world,
  isGone,
}: {
  object: ApiObject
  kind: Kind
  world: World
  isGone: boolean
}) {
  const [found, setFound] = useState<Dependents>()
  const [isBusy, setBusy] = useState(false)
  const owners = listOf(object.metadata.ownerReferences).map(fieldsOf)
  const look = async () => {
    setBusy(true)
    setFound(await dependentsOf(object, world))
    setBusy(false)
  }
  return (
    <section>
      <h2>Owners and dependents</h2>
      <ul class="tree">
        {owners.map(owner => (
          <li key={textOf(owner.uid)}>
            <OwnerLink owner={owner} namespace={object.metadata.namespace} world={world} />
            {owner.controller === true && <span class="badge">controller</span>}
          </li>
        ))}
        <li>
          <strong>
            {kind.kind} <bdi>{object.metadata.name}</bdi>
          </strong>
          {found !== undefined && (
            <ul>
              {found.found.map(each => (
                <li key={each.path}>
                  <a href={consoleHref(each.path)}>
                    {each.kind.kind} <bdi>{each.name}</bdi>
                  </a>
                </li>
              ))}
              {found.found.length === 0 && <li class="quiet">no dependents</li>}
            </ul>
          )}
        </li>
      </ul>
      {found !== undefined && found.gap !== '' && <p class="quiet">{found.gap}</p>}
      {!isGone && (
        <button type="button" onClick={() => void look()} disabled={isBusy}>
          {isBusy ? 'Looking…' : 'Look for dependents'}
        </button>
      )}
    </section>
  )
}

function OwnerLink({
  owner,
  namespace,
  world,
}: {
  owner: Readonly<Record<string, unknown>>
  namespace: string | undefined
  world: World
}) {
  const [group = '', version] = textOf(owner.apiVersion).includes('/')
    ? textOf(owner.apiVersion).split('/')
    : ['', textOf(owner.apiVersion)]
  const kind = world.kinds.find(
    each => each.group === group && each.version === version && each.kind === owner.kind,
  )
  const title = `${textOf(owner.kind)} ${textOf(owner.name)}`
  if (kind === undefined) return <bdi>{title}</bdi>
  return <a href={consoleHref(pathOfKind(kind, namespace, textOf(owner.name)))}>{title}</a>
}
