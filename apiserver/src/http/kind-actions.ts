import type { HostedPlugin } from '@setpoint/controller-runtime/internal'
import type { ServedModel } from '../model/index.ts'
import type { KindAction } from './kind-action.ts'

/** The actions that plugins serve, by kind and name. */
export class KindActions {
  readonly #mounted = new Map<string, KindAction>()

  add(added: readonly KindAction[]): void {
    for (const each of added) {
      const { name, model } = each.action
      this.#mounted.set(`${model.group}/${model.plural}/${name}`, each)
    }
  }

  remove(hosted: HostedPlugin): void {
    for (const [id, mounted] of this.#mounted) if (mounted.hosted === hosted) this.#mounted.delete(id)
  }

  all(): KindAction[] {
    return [...this.#mounted.values()]
  }

  find(served: ServedModel, name: string): KindAction | undefined {
    return this.#mounted.get(`${served.resource}/${name}`)
  }
}
