import { useMemo } from 'preact/hooks'
import type { Kind } from '../api/discovery.ts'
import type { ApiObject } from '../api/json.ts'
import { diffOf } from '../model/diff.ts'
import type { Change, LiveObject } from '../model/live-object.ts'
import { toYaml } from '../model/yaml.ts'

/** The changes since the page was opened, the newest first. */
export function History({ live }: { live: LiveObject; kind: Kind }) {
  const changes = live.history.value
  return (
    <>
      <p class="quiet">
        What has changed since this page was opened, the newest first. Earlier changes are not recorded; what
        controllers have reported is under Events.
      </p>
      <ol class="history" reversed>
        {changes.map(change => (
          <ChangeEntry key={`${change.type} ${change.object.metadata.version}`} change={change} />
        ))}
      </ol>
    </>
  )
}

export function ChangeEntry({ change, isOpen = true }: { change: Change; isOpen?: boolean }) {
  const { type, at, object, before } = change
  const words = {
    ADDED: before === undefined ? 'As it was' : 'Created again',
    MODIFIED: 'Changed',
    DELETED: 'Deleted',
  }
  return (
    <li>
      <div class="change-title">
        <strong>{words[type]}</strong>{' '}
        <time dateTime={new Date(at).toISOString()}>{new Date(at).toLocaleTimeString()}</time>{' '}
        <span class="quiet">version {object.metadata.version}</span>
      </div>
      {isOpen && before !== undefined && type !== 'DELETED' && <Diff before={before} after={object} />}
    </li>
  )
}

export function Diff({ before, after }: { before: ApiObject; after: ApiObject }) {
  const lines = useMemo(() => diffOf(toYaml(shown(before)), toYaml(shown(after))), [before, after])
  return (
    <pre class="diff">
      {lines.map(({ is, text }, at) => (
        <span key={at} class={is}>
          <span class="sign">{is === 'added' ? '+' : is === 'removed' ? '−' : ' '}</span>
          {text}
          {'\n'}
        </span>
      ))}
    </pre>
  )
}

/** Without what changes with every write. */
function shown(object: ApiObject) {
  const { version: _, resourceVersion: __, managedFields: ___, ...metadata } = object.metadata
  return {
    ...object,
    metadata: Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== undefined)),
  }
}
