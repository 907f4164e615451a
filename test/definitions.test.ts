import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadAll } from 'js-yaml'
import { afterAll, expect, it } from 'vitest'
import { writeFiles } from './support/plugins.ts'
import { runProgram } from './support/server.ts'

const dir = await mkdtemp(join(tmpdir(), 'setpoint-definitions-'))
afterAll(() => rm(dir, { recursive: true, force: true }))

await writeFiles(dir, {
  'package.json': JSON.stringify({
    name: 'desks',
    version: '1.0.0',
    type: 'module',
    main: 'index.js',
    setpoint: {},
  }),
  'index.js': `import { defineModel, definePlugin, multiValueIndex, singleValueIndex } from '@setpoint/controller-runtime'
const spec = { type: 'object', required: ['room'], properties: {
  room: { type: 'string' }, seats: { type: 'integer' }, tags: { type: 'array', items: { type: 'string' } } } }
const Desk = defineModel({
  group: 'desks.example.com', version: 'v1', kind: 'Desk', singular: 'desk', plural: 'desks', shortNames: ['dk'],
  scope: 'Namespaced', prune: true, schema: { spec, status: { type: 'object', properties: { phase: { type: 'string' } } } },
  subresources: { status: true },
  indexes: [
    singleValueIndex({ name: 'spec.room', indexFunc: desk => desk.spec.room }),
    singleValueIndex({ name: 'spec.seats', unique: true, uniqueWithin: 'namespace', indexFunc: desk => desk.spec.seats?.toString() }),
    multiValueIndex({ name: 'spec.tags', indexFunc: desk => desk.spec.tags ?? [] }),
    singleValueIndex({ name: 'status.phase', indexFunc: desk => desk.status?.phase?.toLowerCase() }),
  ],
  printerColumns: [{ name: 'Room', type: 'string', jsonPath: '.spec.room' }],
  versions: [{ name: 'v1beta1', deprecated: 'use v1', schema: { spec: { type: 'object' } },
    toHub: desk => ({ spec: { room: 'a' } }), fromHub: desk => ({ spec: {} }) }],
  storedVersion: 'v1beta1',
  validate: () => [],
})
export default definePlugin({ name: 'desks', models: [Desk] })`,
})

const definitionsOf = (plugin: string) => runProgram(['definitions', plugin])

it('has the versions, names, columns and indexes of a kind', async () => {
  const { code, stdout, stderr } = await definitionsOf(dir)
  expect([code, stderr]).toEqual([0, ''])
  expect(loadAll(stdout)).toEqual([
    {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: {
        name: 'desks.desks.example.com',
        annotations: {
          'setpoint.dev/indexes':
            '[{"path":".spec.seats","unique":true,"uniqueWithin":"namespace"},{"path":".spec.tags","multi":true}]',
        },
      },
      spec: {
        group: 'desks.example.com',
        scope: 'Namespaced',
        names: { kind: 'Desk', listKind: 'DeskList', plural: 'desks', singular: 'desk', shortNames: ['dk'] },
        versions: [
          expect.objectContaining({
            ...{ name: 'v1', served: true, storage: false, subresources: { status: {} } },
            selectableFields: [{ jsonPath: '.spec.room' }],
            additionalPrinterColumns: [{ name: 'Room', type: 'string', jsonPath: '.spec.room' }],
            schema: {
              openAPIV3Schema: {
                type: 'object',
                required: ['spec'],
                properties: {
                  apiVersion: { type: 'string' },
                  kind: { type: 'string' },
                  metadata: { type: 'object' },
                  spec: {
                    type: 'object',
                    required: ['room'],
                    properties: {
                      room: { type: 'string' },
                      seats: { type: 'integer' },
                      tags: { type: 'array', items: { type: 'string' } },
                    },
                  },
                  status: { type: 'object', properties: { phase: { type: 'string' } } },
                },
              },
            },
          }),
          expect.objectContaining({
            ...{ name: 'v1beta1', storage: true, deprecated: true, deprecationWarning: 'use v1' },
          }),
        ],
      },
    },
  ])
})

it('says in comments what a definition cannot', async () => {
  const { stdout } = await definitionsOf(dir)
  const comments = stdout.split('\n').filter(line => line.startsWith('#'))
  expect(comments).toEqual([
    expect.stringMatching(/^# The index status\.phase is left out/),
    expect.stringMatching(/^# The model's validate is code/),
    expect.stringMatching(/^# The conversions of its versions are code/),
    expect.stringMatching(/no dots/),
  ])
})

it('refuses what holds no plugin, and a plugin without kinds', async () => {
  const nothing = await definitionsOf(join(dir, 'nothing'))
  expect([nothing.code, nothing.stderr]).toEqual([2, expect.stringContaining('holds no plugin')])
  const empty = await definitionsOf(join(import.meta.dirname, 'fixtures/empty-plugin'))
  expect([empty.code, empty.stderr]).toEqual([1, 'setpoint: the plugin empty declares no kinds\n'])
  const missing = await runProgram(['definitions'])
  expect([missing.code, missing.stderr]).toEqual([
    2,
    expect.stringContaining("missing required argument 'plugin'"),
  ])
})
