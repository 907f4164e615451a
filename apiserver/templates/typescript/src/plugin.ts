import { definePlugin, type Plugin } from '@setpoint/controller-runtime'
import { Page } from './page.ts'
import { writeSite } from './site.ts'

/** Makes the plugin that writes pages into a folder. Each test uses a folder of its own. */
export function pages(folder: string): Plugin {
  return definePlugin({
    name: 'plugin-name',
    models: [Page],
    setup(plugin) {
      plugin.controller(Page, controller => writeSite(controller, folder))
    },
  })
}
