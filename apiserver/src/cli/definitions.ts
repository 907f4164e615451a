import { silentLogger } from '@setpoint/controller-runtime'
import { dump } from 'js-yaml'
import { definitionOf } from '../definitions/index.ts'
import { PluginLoader, type PluginSource } from '../plugins/index.ts'

/**
 * Prints the kinds of a plugin as CustomResourceDefinitions of Kubernetes, with comments about what they cannot say.
 * @throws PluginLoadError; Error for a plugin without kinds
 */
export async function printDefinitions(source: PluginSource): Promise<void> {
  const { plugin } = await new PluginLoader(source, silentLogger).load()
  if (plugin.models.length === 0) throw new Error(`the plugin ${plugin.name} declares no kinds`)
  for (const model of plugin.models) {
    const { object, notes } = definitionOf(model)
    const comments = notes.map(note => `# ${note}\n`).join('')
    process.stdout.write(`---\n${comments}${dump(object, { noRefs: true, lineWidth: 120 })}`)
  }
}
