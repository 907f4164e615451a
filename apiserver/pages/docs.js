/** The page to browse the OpenAPI documents of the server that serves it. */
import { curlOf, groupsOf, sectionsOf } from './view.js'

const base = location.pathname.replace(/\/docs$/, '')

/** In memory only: it is gone when the page is closed. */
let token = ''

/**
 * @param {string} id
 * @returns {HTMLElement}
 */
function at(id) {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no element ${id}`)
  return found
}

/**
 * Makes an element. Text is never parsed as HTML.
 * @param {string} name
 * @param {Record<string, string>} attributes
 * @param {(Node | string)[]} children
 */
function element(name, attributes, ...children) {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  made.append(...children)
  return made
}

class TokenRequiredError extends Error {}

/**
 * @param {string} path below the base path
 * @returns {Promise<unknown>}
 */
async function load(path) {
  /** @type {Record<string, string>} */
  const headers = token === '' ? {} : { authorization: `Bearer ${token}` }
  const response = await fetch(`${base}${path}`, { headers })
  if (response.status === 401) throw new TokenRequiredError('A token is required.')
  if (!response.ok) throw new Error(`${path}: ${response.status} ${response.statusText}`)
  return response.json()
}

/** @param {import('./view.js').Field} field */
function fieldElement(field) {
  const required = field.isRequired ? [element('b', {}, ' required')] : []
  const line = [element('code', {}, field.name), ` ${field.type}`, ...required]
  const notes = field.notes.length === 0 ? [] : [element('div', { class: 'note' }, field.notes.join(' · '))]
  const text = field.description === '' ? [] : [element('div', {}, field.description)]
  const details = element('details', { class: 'field' }, element('summary', {}, ...line))
  details.addEventListener('toggle', () => details.append(fieldList(field)), { once: true })
  const children = field.children()
  if (children.length === 0) return element('div', { class: 'field' }, ...line, ...text, ...notes)
  details.append(...text, ...notes)
  return details
}

/** @param {import('./view.js').Field} field */
function fieldList(field) {
  return element('div', {}, ...field.children().map(fieldElement))
}

/** @param {import('./view.js').Body} body */
function bodyElement(body) {
  const example = body.example === '' ? [] : [element('pre', {}, body.example)]
  return element(
    'details',
    {},
    element('summary', {}, element('code', {}, body.type), ` ${body.schema.type}`),
    fieldList(body.schema),
    ...example,
  )
}

/** @param {import('./view.js').Operation} operation */
function operationContent(operation) {
  const content = element('div', {})
  if (operation.description !== '') content.append(element('p', {}, operation.description))
  content.append(element('pre', {}, curlOf(`${location.origin}${base}`, operation, token !== '')))
  if (operation.parameters.length > 0) {
    const rows = operation.parameters.map(({ name, place, type, isRequired, description }) =>
      element(
        'tr',
        {},
        element('td', {}, element('code', {}, name)),
        element('td', {}, `${place}, ${type}${isRequired ? ', required' : ''}`),
        element('td', {}, description),
      ),
    )
    content.append(element('h4', {}, 'Parameters'), element('table', {}, ...rows))
  }
  if (operation.bodies.length > 0)
    content.append(element('h4', {}, 'Body'), ...operation.bodies.map(bodyElement))
  content.append(element('h4', {}, 'Responses'))
  for (const { code, description, bodies } of operation.responses)
    content.append(element('div', {}, element('b', {}, code), ` ${description}`, ...bodies.map(bodyElement)))
  return content
}

/** @param {import('./view.js').Operation} operation */
function operationElement(operation) {
  const details = element(
    'details',
    { class: 'operation', id: operation.id },
    element(
      'summary',
      operation.isDeprecated ? { class: 'deprecated' } : {},
      element('span', { class: 'method' }, operation.method),
      element('code', {}, operation.path),
      ` ${operation.summary}`,
    ),
  )
  details.addEventListener('toggle', () => details.append(operationContent(operation)), { once: true })
  return details
}

/** The number of calls of `show`. The last one decides what is shown. */
let shows = 0

/** Shows the group version in the URL's fragment, or the first one. */
async function show() {
  const number = ++shows
  at('message').textContent = 'Loading'
  try {
    const groups = groupsOf(await load('/openapi/v3'))
    const versions = groups.flatMap(group => group.versions)
    const chosen = versions.find(({ key }) => location.hash === `#${key}`) ?? versions[0]
    const document = chosen && (await load(`/openapi/v3/${chosen.key}?${chosen.search}`))
    if (number !== shows) return
    showGroups(groups, chosen?.key)
    at('document').replaceChildren(...(chosen === undefined ? [] : documentElements(chosen.key, document)))
    at('message').textContent = chosen === undefined ? 'No kinds and no routes are served.' : ''
    at('token').hidden = true
  } catch (error) {
    if (number !== shows) return
    if (error instanceof TokenRequiredError) {
      token = ''
      at('token').hidden = false
    }
    at('document').replaceChildren()
    at('message').textContent = error instanceof Error ? error.message : String(error)
  }
}

/**
 * @param {import('./view.js').Group[]} groups
 * @param {string | undefined} chosen
 */
function showGroups(groups, chosen) {
  const links = groups.flatMap(({ group, versions }) => [
    element('h2', {}, group),
    ...versions.map(({ version, key }) =>
      element('a', { href: `#${key}`, ...(key === chosen && { 'aria-current': 'page' }) }, version),
    ),
  ])
  at('groups').replaceChildren(...links)
  at('groups').querySelector('[aria-current]')?.scrollIntoView?.({ block: 'nearest' })
}

/**
 * @param {string} key
 * @param {unknown} document
 */
function documentElements(key, document) {
  const sections = sectionsOf(document).flatMap(({ name, description, operations }) => [
    element('h2', {}, name),
    element('p', {}, description),
    ...operations.map(operationElement),
  ])
  return [element('h1', {}, key.replace(/^apis?\//, '')), ...sections]
}

at('token').addEventListener('submit', event => {
  event.preventDefault()
  const secret = at('secret')
  if (!(secret instanceof HTMLInputElement)) return
  token = secret.value.trim()
  secret.value = ''
  void show()
})
addEventListener('hashchange', () => void show())
void show()
