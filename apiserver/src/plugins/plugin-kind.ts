import { defineModel, type ObjectOf, singleValueIndex } from '@setpoint/controller-runtime/api'

/** The kind `Plugin` of `plugins.<reserved domain>/v1`: one object for each plugin, with its phase and problems. */
export function pluginModel(reservedDomain: string) {
  return defineModel({
    group: `plugins.${reservedDomain}`,
    version: 'v1',
    kind: 'Plugin',
    singular: 'plugin',
    plural: 'plugins',
    schema: {
      spec: {
        type: 'object',
        properties: {
          enabled: {
            type: 'boolean',
            description: 'False stops the plugin on every server and controller process. Default: true.',
          },
          reload: {
            anyOf: [{ type: 'string' }, { type: 'integer' }],
            description: "Any new value reloads the plugin's code.",
          },
        },
      },
      status: {
        type: 'object',
        properties: {
          phase: { type: 'string', enum: ['Starting', 'Started', 'Failed', 'Disabled', 'NotInstalled'] },
          message: { type: 'string', description: 'Why the plugin is in this phase.' },
          version: { type: 'string', description: "Version of the plugin's package." },
          source: {
            type: 'string',
            description: 'Where it was loaded from: a folder, npm:<package>, or the file of an archive.',
          },
          kinds: {
            type: 'array',
            items: { type: 'string' },
            description: 'The kinds that the plugin declares, as <plural>.<group>.',
          },
          routes: {
            type: 'array',
            items: { type: 'string' },
            description: 'The groups of its own routes, as <group>/<version>.',
          },
          conditions: {
            type: 'array',
            items: {
              type: 'object',
              required: ['type', 'status', 'lastTransitionTime'],
              properties: {
                type: { type: 'string' },
                status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
                reason: { type: 'string' },
                message: { type: 'string' },
                lastTransitionTime: { type: 'string', format: 'date-time' },
              },
            },
          },
          migrations: {
            type: 'array',
            description: 'Migrations of stored objects to another version of their kind.',
            items: {
              type: 'object',
              required: ['kind', 'to', 'total', 'done', 'failed'],
              properties: {
                kind: { type: 'string', description: 'As in kinds.' },
                to: { type: 'string', description: 'The version that objects are stored in.' },
                total: { type: 'integer' },
                done: { type: 'integer' },
                failed: { type: 'integer' },
              },
            },
          },
          problemCount: { type: 'integer', description: 'Number of problems.' },
          problems: {
            type: 'array',
            description: 'Problems that need attention although the plugin runs.',
            items: {
              type: 'object',
              required: ['source', 'message'],
              properties: {
                source: { type: 'string', description: 'A file with its line, or an index.' },
                message: { type: 'string' },
              },
            },
          },
        },
      },
    },
    subresources: { status: true },
    indexes: [singleValueIndex({ name: 'status.phase', indexFunc: plugin => plugin.status?.phase })],
    printerColumns: [
      { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
      { name: 'Version', type: 'string', jsonPath: '.status.version' },
      { name: 'Problems', type: 'integer', jsonPath: '.status.problemCount' },
      { name: 'Message', type: 'string', jsonPath: '.status.message' },
    ],
  })
}

type StoredStatus = NonNullable<ObjectOf<ReturnType<typeof pluginModel>>['status']>
/** The phase of a plugin that a server has. */
export type PluginPhase = Exclude<NonNullable<StoredStatus['phase']>, 'NotInstalled'>
/** The status of a plugin that a server has. */
export type PluginStatus = StoredStatus & { readonly phase?: PluginPhase }
