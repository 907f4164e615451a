import type { ObjectKey } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'
import type { Compare } from '../storage/index.ts'

/** Knows the namespaces. The registry is given one, because it knows no kinds. */
export interface Namespaces {
  /**
   * Admits a new object to its namespace. The write compares the result, so that it fails if the namespace has been
   * deleted meanwhile.
   * @param isLive reads the store, after the comparison has failed
   * @throws ApiError 404 if there is no such namespace, 403 if it is being deleted
   */
  admit(served: ServedModel, key: ObjectKey, isLive: boolean): Promise<Compare>
}
