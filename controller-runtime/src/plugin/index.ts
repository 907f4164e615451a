/** What a plugin's author writes: the declaration with its models and `setup`, and the plugin's own routes. */
export * from './plugin.ts'
export * from './routes.ts'
