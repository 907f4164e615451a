/**
 * What the plugin adds to the console: a tab with the latency and the states of a probe, and marks in place of its last
 * states. See docs/guides/console.md.
 */

/** @param {any} object */
const historyOf = object => [...(object.status?.history ?? [])].reverse()

export default {
  tabs: [
    {
      name: 'Latency',
      render(element, { follow, plot }) {
        const summary = document.createElement('p')
        const chart = document.createElement('div')
        const states = document.createElement('ol')
        states.setAttribute('aria-label', 'States')
        element.append(summary, chart, states)
        let drawn
        const plotting = plot(chart, [{ name: 'Latency', unit: ' ms' }]).then(made => {
          drawn = made
          return made
        })
        const end = follow(object => {
          const {
            state = 'Unknown',
            reason = '',
            message = '',
            consecutiveFailures = 0,
          } = object.status ?? {}
          summary.textContent =
            state === 'Up'
              ? `Up: ${message}`
              : `${state} because of ${reason || 'no check yet'}: ${message}. ${consecutiveFailures} checks in a row were not up.`
          const history = historyOf(object)
          const draw = () =>
            drawn?.set(
              history.map(({ time }) => Date.parse(time) / 1000),
              history.map(({ latencyMs }) => latencyMs ?? null),
            )
          plotting.then(draw, error => {
            chart.textContent = String(error)
          })
          states.replaceChildren(
            ...[...history].reverse().map(each => {
              const item = document.createElement('li')
              const time = document.createElement('time')
              time.dateTime = each.time
              time.textContent = new Date(each.time).toLocaleTimeString()
              item.append(time, ` ${each.state}, ${each.reason}`)
              if (each.httpStatus !== undefined) item.append(`, HTTP ${each.httpStatus}`)
              if (each.latencyMs !== undefined) item.append(`, ${each.latencyMs} ms`)
              return item
            }),
          )
        })
        return () => {
          end()
          drawn?.remove()
        }
      },
    },
  ],
  cells: {
    Latency(element, object) {
      const { latencyMs } = object.status ?? {}
      element.textContent = latencyMs === undefined ? '' : `${latencyMs} ms`
    },
  },
}
