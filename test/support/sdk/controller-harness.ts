import type { Model } from '../../../controller-runtime/src/api/model.ts'
import type { ApiObject, OwnerReference } from '../../../controller-runtime/src/api/object.ts'
import type { Client } from '../../../controller-runtime/src/client/client.ts'
import { createClient } from '../../../controller-runtime/src/client/create-client.ts'
import { systemClock } from '../../../controller-runtime/src/clock.ts'
import type { ControllerBuilder } from '../../../controller-runtime/src/controller/builder.ts'
import type { Controller } from '../../../controller-runtime/src/controller/controller.ts'
import {
  createManager,
  type Manager,
  type ManagerOptions,
} from '../../../controller-runtime/src/manager/manager.ts'
import type { FakeClock } from '../../../controller-runtime/src/testing/fake-clock.ts'
import { MemoryServer } from './memory-server.ts'

/** One controller in a manager, over a server in memory. */
export interface Harness {
  readonly server: MemoryServer
  readonly client: Client
  readonly manager: Manager
  readonly controller: Controller
  stop(): Promise<void>
}

/** Starts a controller and its manager. With a fake clock the test advances the time. */
export function startHarness<T extends ApiObject>(
  model: Model<T>,
  build: (controller: ControllerBuilder<T>) => unknown,
  {
    clock,
    server = new MemoryServer(),
    ...options
  }: { readonly clock?: FakeClock; readonly server?: MemoryServer } & Omit<ManagerOptions, 'clock'> = {},
): Harness {
  const client = createClient(server)
  const manager = createManager({ client, clock: clock ?? systemClock, drainTimeoutMs: 50, ...options })
  const controller = manager.controller(model, build)
  manager.start()
  return {
    server,
    client,
    manager,
    controller,
    async stop() {
      const stopped = manager.stop()
      await clock?.advance(60_000)
      await stopped
    },
  }
}

/** Lets all work in memory finish, before asserting that something did not happen. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise(resolve => setImmediate(resolve))
}

/** An owner reference by name only; the server in memory does not check it. */
export function ownedBy(kind: string, name: string, extra: Partial<OwnerReference> = {}): OwnerReference {
  return { apiVersion: 'demo.example.com/v1', kind, name, uid: `uid-of-${name}`, controller: true, ...extra }
}
