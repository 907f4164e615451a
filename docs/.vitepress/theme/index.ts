import type { Theme } from 'vitepress'
import DefaultTheme from 'vitepress/theme'
import { h } from 'vue'
import './style.css'

/** What the first page shows beside its title: the idea in ten lines. */
const example = `kind: Probe
metadata:
  name: shop
spec:               # what you want
  url: https://shop.example.com/
  intervalSeconds: 60
status:             # what is
  state: Down
  message: connection refused
`

const theme: Theme = {
  extends: DefaultTheme,
  Layout: () =>
    h(DefaultTheme.Layout, null, { 'home-hero-image': () => h('pre', { class: 'hero-example' }, example) }),
}

export default theme
