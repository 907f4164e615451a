import { useEffect, useRef } from 'preact/hooks'
import { chartedMetrics, type Readings } from '../model/metrics.ts'

/** The metrics that matter, of one server. */
export function Charts({ readings }: { readings: Readings }) {
  return (
    <section>
      <h2>Metrics</h2>
      <div class="charts">
        {chartedMetrics.map(({ title, unit }, at) => (
          <Chart
            key={title}
            title={title}
            unit={unit}
            times={readings.times}
            values={readings.valuesOf(at)}
          />
        ))}
      </div>
    </section>
  )
}

function Chart({
  title,
  unit,
  times,
  values,
}: {
  title: string
  unit: string
  times: readonly number[]
  values: readonly (number | null)[]
}) {
  const element = useRef<HTMLDivElement>(null)
  const drawn = useRef<
    { set(times: readonly number[], ...values: readonly (readonly (number | null)[])[]): void } | undefined
  >(undefined)
  const latest = useRef({ times, values })
  latest.current = { times, values }
  useEffect(() => {
    let remove = () => {}
    let isGone = false
    void import('../plot/plot.ts').then(({ plot }) => {
      if (isGone || element.current === null) return
      const chart = plot(element.current, [{ name: title, unit }], 120)
      drawn.current = chart
      remove = chart.remove
      chart.set(latest.current.times, latest.current.values)
    })
    return () => {
      isGone = true
      remove()
    }
  }, [])
  drawn.current?.set(times, values)
  const last = values.at(-1)
  return (
    <figure>
      <figcaption>
        {title}: {last === undefined || last === null ? '–' : `${Math.round(last * 100) / 100}${unit}`}
      </figcaption>
      <div ref={element} aria-hidden="true" />
    </figure>
  )
}
