import { useRef, useState } from 'preact/hooks'
import { apiRoot, apiUrl } from '../api/address.ts'
import { type Kind, pathOfKind } from '../api/discovery.ts'
import { token } from '../api/session.ts'
import { tell } from '../app-state.ts'
import type { Place } from '../route.ts'

type Copied = Extract<Place, { at: 'collection' | 'object' }>

/** What is shown, as a command or as code. */
export function CopyAs({ place }: { place: Copied }) {
  const [isOpen, setOpen] = useState(false)
  const menu = useRef<HTMLDivElement>(null)
  const forms: readonly (readonly [string, (place: Copied) => string])[] = [
    ['curl', asCurl],
    ['kubectl', asKubectl],
    ['SDK', asSdk],
  ]
  const copy = async (name: string, text: string) => {
    setOpen(false)
    try {
      await navigator.clipboard.writeText(text)
      tell(`Copied as ${name}: ${text.split('\n').at(-1)}`)
    } catch {
      tell(text)
    }
  }
  const key = (event: KeyboardEvent) => {
    const items = [...(menu.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])]
    const at = items.indexOf(document.activeElement as HTMLElement)
    if (event.key === 'Escape') {
      setOpen(false)
      menu.current?.querySelector('button')?.focus()
    } else if (event.key === 'ArrowDown') items[(at + 1) % items.length]?.focus()
    else if (event.key === 'ArrowUp') items[(at - 1 + items.length) % items.length]?.focus()
    else return
    event.preventDefault()
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: its parts have the roles
    <div
      class="menu-box"
      ref={menu}
      onKeyDown={key}
      onFocusOut={({ relatedTarget }) => {
        if (!(relatedTarget instanceof Node) || !menu.current?.contains(relatedTarget)) setOpen(false)
      }}
    >
      <button type="button" aria-haspopup="menu" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        Copy as
      </button>
      {isOpen && (
        <div role="menu" aria-label="Copy as" class="menu-items">
          {forms.map(([name, form]) => (
            <button type="button" role="menuitem" key={name} onClick={() => void copy(name, form(place))}>
              {name}
            </button>
          ))}
        </div>
      )}
    </div>
  )
}

function pathOf(place: Copied): string {
  const query = place.at === 'collection' ? place.query.toString() : ''
  const path = pathOfKind(place.kind, place.namespace, place.at === 'object' ? place.name : undefined)
  return query === '' ? path : `${path}?${query}`
}

function asCurl(place: Copied): string {
  const credentials = token.value === undefined ? '' : '-H "Authorization: Bearer $TOKEN" '
  return `curl -s ${credentials}${quoted(apiUrl(pathOf(place)).href)}`
}

function asKubectl(place: Copied): string {
  const { kind, namespace } = place
  const resource = kind.group === '' ? kind.plural : `${kind.plural}.${kind.version}.${kind.group}`
  const within = !kind.isNamespaced
    ? ''
    : namespace === undefined
      ? ' --all-namespaces'
      : ` --namespace ${quoted(namespace)}`
  if (place.at === 'object') return `kubectl get ${resource} ${quoted(place.name)}${within} -o yaml`
  const selector = (parameter: string, flag: string) => {
    const terms = place.query.getAll(parameter)
    return terms.length === 0 ? '' : ` ${flag} ${quoted(terms.join(','))}`
  }
  const watch = place.query.get('watch') === 'true' ? ' --watch' : ''
  return `kubectl get ${resource}${within}${selector('fieldSelector', '--field-selector')}${selector('labelSelector', '--selector')}${watch}`
}

function asSdk(place: Copied): string {
  const { kind, namespace } = place
  const model = modelText(kind)
  const head = `import { createClient, defineModel, HttpTransport } from '@setpoint/controller-runtime'\n\n${model}\nconst client = createClient(new HttpTransport({ server: ${JSON.stringify(apiRoot.href.replace(/\/$/, ''))} }))\n`
  const within = namespace === undefined ? '' : `namespace: ${JSON.stringify(namespace)}`
  if (place.at === 'object') {
    const options = within === '' ? '' : `, { ${within} }`
    return `${head}const object = await client.get(${kind.kind}, ${JSON.stringify(place.name)}${options})`
  }
  const options = [
    within,
    ...['fieldSelector', 'labelSelector'].map(name => {
      const terms = place.query.getAll(name)
      return terms.length === 0 ? '' : `${name}: ${JSON.stringify(terms.join(','))}`
    }),
  ].filter(Boolean)
  return `${head}const list = await client.list(${kind.kind}${options.length === 0 ? '' : `, { ${options.join(', ')} }`})`
}

function modelText({ group, version, kind, singular, plural, isNamespaced }: Kind): string {
  const scope = isNamespaced ? ", scope: 'Namespaced'" : ''
  return `const ${kind} = defineModel({ group: '${group}', version: '${version}', kind: '${kind}', singular: '${singular}', plural: '${plural}'${scope}, schema: { spec: { type: 'object' } } })`
}

function quoted(text: string): string {
  return /^[\w./:=@,-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`
}
