/** The declaration of a plugin with its models and `setup`, and of its routes. */
export * from './plugin.ts'
export * from './routes.ts'
export * from './settings.ts'
