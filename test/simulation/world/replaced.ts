import { syncBuiltinESMExports } from 'node:module'

/** A function that stands for another; `real` calls that one. */
export type Replacement = (
  real: (...args: readonly unknown[]) => unknown,
  args: readonly unknown[],
) => unknown

/** Functions of Node and the language, replaced until `restore`. */
export class Replaced {
  readonly #undo: (() => void)[] = []

  /** Replaces a method. Calls that `applies` rejects go to the real one. */
  method(target: object, name: string, applies: () => boolean, replacement: Replacement): void {
    const found = findProperty(target, name)
    const value: unknown = found?.value
    if (typeof value !== 'function') return
    const stand = function (this: unknown, ...args: readonly unknown[]) {
      const real = (...given: readonly unknown[]): unknown =>
        new.target === undefined ? Reflect.apply(value, this, given) : Reflect.construct(value, given)
      return applies() ? replacement(real, args) : real(...args)
    }
    // Properties of the function, such as `hrtime.bigint` and the promisified form.
    Object.setPrototypeOf(stand, value)
    this.value(target, name, stand)
  }

  value(target: object, name: string, value: unknown): void {
    const own = Object.getOwnPropertyDescriptor(target, name)
    Object.defineProperty(target, name, {
      value,
      configurable: true,
      writable: true,
      enumerable: own?.enumerable ?? false,
    })
    this.#undo.push(() => {
      if (own === undefined) Reflect.deleteProperty(target, name)
      else Object.defineProperty(target, name, own)
    })
  }

  /** Shows the replaced functions also to `import { name } from 'node:module'`. */
  publish(): void {
    syncBuiltinESMExports()
  }

  restore(): void {
    for (const undo of this.#undo.splice(0).reverse()) undo()
    syncBuiltinESMExports()
  }
}

function findProperty(target: object, name: string): PropertyDescriptor | undefined {
  for (let at: object | null = target; at !== null; at = Object.getPrototypeOf(at)) {
    const found = Object.getOwnPropertyDescriptor(at, name)
    if (found !== undefined) return found
  }
  return undefined
}
