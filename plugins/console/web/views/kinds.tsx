import type { Signal } from '@preact/signals'
import { Fragment } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { consoleHref } from '../api/address.ts'
import type { Kind } from '../api/discovery.ts'
import { type ListedKind, pathOfListed, place, type World } from '../app-state.ts'
import { Counts } from '../model/counts.ts'

/** The kinds by their groups, with live counts. */
export function Kinds({ world }: { world: World }) {
  const [isOpen, setOpen] = useState(false)
  const counts = useMemo(() => new Counts(), [world])
  const groups = useMemo(() => groupsOf(world.listed), [world])
  useEffect(() => {
    void counts.follow(world.listed.map(pathOfListed))
    return () => counts.close()
  }, [counts])
  const at = place.value
  // The list covers the page on a phone.
  useEffect(() => setOpen(false), [at])
  const isCurrent = ({ kind }: ListedKind) =>
    at !== undefined && 'kind' in at && at.kind.group === kind.group && at.kind.plural === kind.plural
  return (
    <div class={isOpen ? 'side open' : 'side'}>
      <button
        type="button"
        class="menu"
        aria-expanded={isOpen}
        aria-controls="kinds"
        onClick={() => setOpen(!isOpen)}
      >
        Menu
      </button>
      <div id="kinds" class="side-content">
        <nav aria-label="Server">
          <ul>
            <li>
              <a
                href={consoleHref('/system')}
                {...(at?.at === 'system' && { 'aria-current': 'page' as const })}
              >
                System
              </a>
            </li>
            <li>
              <a
                href={consoleHref('/reference')}
                {...(at?.at === 'reference' && { 'aria-current': 'page' as const })}
              >
                API reference
              </a>
            </li>
          </ul>
        </nav>
        <nav aria-label="Kinds">
          {groups.map(([group, kinds]) => (
            <section key={group} aria-labelledby={`group-${group}`}>
              <h2 id={`group-${group}`}>{group}</h2>
              <ul>
                {kinds.map(listed => (
                  <li key={listed.kind.plural}>
                    <a
                      href={consoleHref(pathOfListed(listed))}
                      {...(isCurrent(listed) && { 'aria-current': 'page' as const })}
                    >
                      <Plural kind={listed.kind} />
                    </a>
                    <Count of={counts.of(pathOfListed(listed))} />
                  </li>
                ))}
              </ul>
            </section>
          ))}
        </nav>
      </div>
    </div>
  )
}

/** Names that are longer may break between their words, which the name of the kind has in capitals. */
const longName = 22

function Plural({ kind: { kind, plural } }: { kind: Kind }) {
  if (plural.length <= longName) return <>{plural}</>
  const starts = [...kind.matchAll(/(?<=[a-z])[A-Z]/g)].map(({ index }) => index)
  const parts = [0, ...starts].map((start, at) => plural.slice(start, starts[at]))
  return (
    <>
      {parts.map((part, at) => (
        <Fragment key={part}>
          {at > 0 && <wbr />}
          {part}
        </Fragment>
      ))}
    </>
  )
}

function Count({ of }: { of: Signal<number | undefined> }) {
  const { value } = of
  if (value === undefined) return null
  return (
    <span class="count" title={`${value} objects`}>
      {value.toLocaleString('en')}
    </span>
  )
}

/** Plugins' groups first, those of Kubernetes and of the server itself last. */
function groupsOf(listed: readonly ListedKind[]): [string, ListedKind[]][] {
  const groups = new Map<string, ListedKind[]>()
  const hasEvents = listed.some(({ kind: { group, plural } }) => group === '' && plural === 'events')
  for (const each of listed) {
    // The same objects as those of the core group.
    if (hasEvents && each.kind.group === 'events.k8s.io') continue
    const name = each.kind.group === '' ? 'core' : each.kind.group
    groups.set(name, [...(groups.get(name) ?? []), each])
  }
  const rank = (group: string) => (group === 'core' || /(^|\.)(k8s\.io|setpoint\.dev)$/.test(group) ? 1 : 0)
  return [...groups].sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1))
}
