/** The declaration of a plugin with its models and `setup`, of its actions, routes, pages and runnables. */
export * from './actions.ts'
export * from './pages.ts'
export * from './permissions.ts'
export * from './plugin.ts'
export * from './routes.ts'
export * from './runnables.ts'
export * from './settings.ts'
