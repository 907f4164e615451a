import { render } from 'preact'
import { begin } from './app-state.ts'
import { followLinks } from './route.ts'
import { App } from './views/app.tsx'

followLinks()
render(<App />, document.body)
void begin()
