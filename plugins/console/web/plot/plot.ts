import './language.ts'
import uPlot from 'uplot'

export interface Line {
  readonly name: string
  readonly unit?: string
}

function timeOf(seconds: number): string {
  return new Date(seconds * 1_000).toTimeString().slice(0, 8)
}

/** Draws lines over time, as wide as the element is. */
export function plot(element: HTMLElement, lines: readonly Line[], height = 180) {
  const colours = ['--accent', '--bad', '--good', '--busy']
  // A canvas needs the colour itself, not the variable.
  const colour = (name: string) => {
    element.style.color = `var(${name})`
    const { color } = getComputedStyle(element)
    element.style.color = ''
    return color
  }
  const axis = {
    stroke: colour('--quiet'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
  }
  const chart = new uPlot(
    {
      width: Math.max(200, element.clientWidth),
      height,
      legend: { live: true },
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, min, max) => [Math.min(0, min), max > 0 ? max * 1.1 : 1] } },
      axes: [
        { ...axis, space: 80, values: (_, times) => times.map(timeOf) },
        { ...axis, size: 56 },
      ],
      series: [
        { label: 'Time', value: (_: uPlot, value: number | null) => (value === null ? '–' : timeOf(value)) },
        ...lines.map(({ name, unit }, at) => ({
          label: name,
          stroke: colour(colours[at % colours.length] ?? '--accent'),
          width: 1.5,
          points: { show: false },
          value: (_: uPlot, value: number | null) =>
            value === null ? '–' : `${Math.round(value * 100) / 100}${unit ?? ''}`,
        })),
      ],
    },
    [[], ...lines.map(() => [])],
    element,
  )
  const resize = new ResizeObserver(() =>
    chart.setSize({ width: Math.max(200, element.clientWidth), height }),
  )
  resize.observe(element)
  return {
    set(times: readonly number[], ...values: readonly (readonly (number | null)[])[]) {
      chart.setData([[...times], ...values.map(each => [...each])])
    },
    remove() {
      resize.disconnect()
      chart.destroy()
    },
  }
}
