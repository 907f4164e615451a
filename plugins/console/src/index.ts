import { definePlugin } from '@setpoint/controller-runtime'

/** The console. Its page reads the rest of its address itself, and uses the API with the rights of the person in front of it. */
export default definePlugin({
  name: 'console',
  setup(plugin) {
    plugin.pages('/console', { folder: new URL('../pages/', import.meta.url), fallback: 'index.html' })
  },
})
