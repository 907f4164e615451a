import { storageConformance } from '../../storage/conformance.ts'
import { Scheduler } from './scheduler.ts'
import { seededRandom } from './seeded-random.ts'
import { StoreCore } from './store-core.ts'
import { StoreLink } from './store-link.ts'
import { StoreService } from './store-service.ts'

storageConformance('the simulated store', {
  async open() {
    const scheduler = new Scheduler(1)
    const random = seededRandom(1)
    const core = new StoreCore(() => scheduler.now)
    const service = new StoreService({ scheduler, random, core, node: scheduler.node('store') })
    core.onCommit = () => service.committed()
    const open = () => new StoreLink({ scheduler, core, service, random, node: scheduler.node('server-0') })
    const storage = open()
    const isOver = passTime(scheduler)
    return {
      storage,
      async reopen() {
        await storage.close()
        return open()
      },
      async dispose() {
        isOver()
      },
    }
  },
})

/** Lets time pass while the tests wait. */
function passTime(scheduler: Scheduler): () => void {
  let isOver = false
  const pass = async () => {
    while (!isOver) if (!(await scheduler.step())) await new Promise(resolve => setImmediate(resolve))
  }
  void pass()
  return () => {
    isOver = true
  }
}
