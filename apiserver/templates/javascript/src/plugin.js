import { definePlugin } from '@setpoint/controller-runtime'
import { Page } from './page.js'
import { writeSite } from './site.js'

/** Makes the plugin that writes pages into a folder. Each test uses a folder of its own. */
export function pages(folder) {
  return definePlugin({
    name: 'plugin-name',
    models: [Page],
    setup(plugin) {
      plugin.controller(Page, controller => writeSite(controller, folder))
    },
  })
}
