import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type Api, type ApiObject, listOf } from './api.ts'
import { pluginsPath } from './kinds.ts'

/** Writes a plugin into a new folder outside the repository. Keys are file paths, values their contents. */
export async function writePlugin(
  files: Readonly<Record<string, string>>,
  manifest: object = {},
): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'setpoint-plugin-'))
  await writeFile(
    join(dir, 'package.json'),
    JSON.stringify({ name: 'written', version: '1.0.0', type: 'module', exports: './index.js', ...manifest }),
  )
  await writeFiles(dir, files)
  return dir
}

export async function writeFiles(dir: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(dir, path)), { recursive: true })
    await writeFile(join(dir, path), text)
  }
}

/** Returns the source of a plugin module with one model, `Thing`, and the given parts. */
export function pluginModule(
  name: string,
  {
    group = `${name}.example.com`,
    kind = 'Thing',
    plural = 'things',
    indexes = '[]',
    setup = '',
    top = '',
  } = {},
): string {
  return `import { ApiVersion, Get, defineModel, definePlugin, multiValueIndex, singleValueIndex } from '@setpoint/controller-runtime'
${top}
export const Thing = defineModel({
  group: '${group}', version: 'v1', kind: '${kind}', singular: '${kind.toLowerCase()}', plural: '${plural}',
  schema: { spec: { type: 'object', properties: { text: { type: 'string' }, list: { type: 'array', items: { type: 'string' } }, deep: { type: 'object', properties: { a: { type: 'string' }, b: { type: 'string' } } } } } },
  indexes: ${indexes},
})
export default definePlugin({ name: '${name}', models: [Thing], setup(plugin) { ${setup} } })
`
}

export interface PluginState {
  readonly phase: unknown
  readonly message: string
  readonly problems: string
  readonly object: ApiObject
}

/** The `Plugin` objects by name. */
export async function pluginStates(api: Api): Promise<Map<string, PluginState>> {
  const { items } = listOf(await api.get(pluginsPath))
  return new Map(
    items.map(object => [
      object.metadata.name,
      {
        phase: object.status.phase,
        message: String(object.status.message ?? ''),
        problems: JSON.stringify(object.status.problems ?? []),
        object,
      },
    ]),
  )
}
