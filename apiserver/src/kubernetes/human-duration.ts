const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

/**
 * Formats a time span as kubectl shows ages: `5m`, `3h20m`, `2y41d`. Two units while the span is short, one above that.
 * The same text as `duration.HumanDuration` of Kubernetes' apimachinery.
 */
export function humanDuration(ms: number): string {
  const seconds = Math.trunc(ms / second)
  // Clocks of two machines may differ by a second.
  if (seconds < -1) return '<invalid>'
  if (seconds < 0) return '0s'
  if (seconds < 120) return `${seconds}s`
  const minutes = Math.floor(ms / minute)
  if (minutes < 10) return twoUnits(minutes, 'm', seconds % 60, 's')
  if (minutes < 180) return `${minutes}m`
  const hours = Math.floor(ms / hour)
  if (hours < 8) return twoUnits(hours, 'h', minutes % 60, 'm')
  if (hours < 48) return `${hours}h`
  const days = Math.floor(ms / day)
  if (hours < 192) return twoUnits(days, 'd', hours % 24, 'h')
  const years = Math.floor(days / 365)
  if (years < 2) return `${days}d`
  if (years < 8) return twoUnits(years, 'y', days % 365, 'd')
  return `${years}y`
}

function twoUnits(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit}${small}${smallUnit}`
}
