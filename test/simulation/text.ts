import type { Violation } from './history.ts'
import type { Plan, Step } from './plan.ts'

export function violationText({ judge, at, message }: Violation): string {
  return `${judge}, at ${at.toFixed(1)} ms: ${message}`
}

/** Returns a plan in one line for each step. */
export function planText({ servers, controllers, steps }: Plan): string {
  return [
    `  ${servers} servers, ${controllers === 0 ? 'which run controllers' : `${controllers} processes of controllers`}`,
    ...steps.map(stepText),
  ].join('\n')
}

function stepText(step: Step): string {
  const time = `  ${String(step.at).padStart(6)} ms  `
  if ('fault' in step) {
    const { type, ...rest } = step.fault
    return `${time}FAULT ${type} ${partsText(rest)}`
  }
  if ('reload' in step) return `${time}server ${step.server} gets release ${step.reload}`
  const { do: what, ...rest } = step.action
  return `${time}client ${step.client} asks server ${step.server}: ${what} ${partsText(rest)}`
}

function partsText(parts: object): string {
  return Object.entries(parts)
    .filter(([, value]) => value !== undefined && value !== false)
    .map(([name, value]) => `${name}=${typeof value === 'object' ? JSON.stringify(value) : value}`)
    .join(' ')
}
